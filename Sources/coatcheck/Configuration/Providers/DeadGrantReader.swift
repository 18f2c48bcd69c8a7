import BrokerProviders

/// Reads `token_response: {dead_grants}`, the places in the answer to a refresh that show a dead grant.
///
/// If a provider's answer has a listed value, the broker ends the session at once. So ambiguous values are refused or cause a
/// warning.
enum DeadGrantReader {
    /// The codes of RFC 6749 and its extensions for faults other than a dead grant.
    private static let otherFaults: Set<String> = [
        "invalid_request", "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
        "access_denied", "unsupported_response_type", "server_error", "temporarily_unavailable", "invalid_target",
        "slow_down", "use_dpop_nonce", "invalid_dpop_proof",
    ]

    static func read(_ section: ConfigSection) -> [DeadGrantPlace]? {
        let entries = section.list("dead_grants")
        let places = entries.compactMap(place)
        return section.has("dead_grants") ? places : nil
    }

    private static func place(_ section: ConfigSection) -> DeadGrantPlace? {
        section.require("at")
        section.require("values")
        let pointer = section.pointer("at")
        let steps = pointer?.split(separator: "/", omittingEmptySubsequences: false).dropFirst() ?? []
        if steps.contains(where: { !$0.isEmpty && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }) {
            section.report("at", "names one entry of a list; write `*` to include every entry")
        }
        if pointer == "/" { section.report("at", "names no member") }
        let values = section.texts("values", limit: 256)
        if section.has("values"), values.isEmpty { section.report("values", "is empty") }
        for value in values {
            if value.allSatisfy(\.isWhitespace) { section.report("values", "has an empty value") }
            if let number = Int(value), [400, 401, 403, 429].contains(number) || (500...599).contains(number) {
                section.report("values", "has `\(number)`, which servers also use for other faults")
            }
            if otherFaults.contains(value) {
                section.warn("values", "has `\(value)`, which RFC 6749 and its extensions use for other faults")
            }
        }
        var statuses: Set<Int> = [400, 401]
        if section.has("statuses") || section.context.isCataloguing {
            let texts = section.texts("statuses", limit: 3)
            statuses = Set(texts.compactMap { Int($0) })
            if section.has("statuses"), texts.isEmpty || !texts.allSatisfy({ Int($0).map(isStatus) ?? false }) {
                section.report("statuses", "has to hold 200 or statuses from 400 to 499 without 429")
            }
        }
        return pointer.map { DeadGrantPlace(pointer: $0, values: values, statuses: statuses) }
    }

    /// Returns whether a status may report a dead grant; 429 and 5xx mean "later", regardless of the body.
    private static func isStatus(_ status: Int) -> Bool {
        status == 200 || (400...499).contains(status) && status != 429
    }
}
