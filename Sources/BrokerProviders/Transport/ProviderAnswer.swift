import Broker
import NIOHTTP1

/// A provider's whole answer, with any status.
struct ProviderAnswer: Sendable {
    /// The largest number of bytes that are read of a body, after decompression.
    static let maximumBytes = 1 << 20

    let status: Int
    let headers: HTTPHeaders
    /// The body; empty if `fault` makes it unusable.
    let body: [UInt8]
    /// The reason why the body is missing although the provider answered.
    let fault: Fault?

    enum Fault: String, Sendable {
        case tooLarge = "the body is over 1 MiB"
        case undecodable = "the body's compression is broken, or not gzip or deflate"
    }

    /// The first value of a field, or nil.
    func header(_ name: String) -> String? { headers.first(name: name) }

    var isSuccess: Bool { (200..<300).contains(status) }

    /// The media type in lower case, stripped of its parameters.
    var mediaType: String {
        let type = headers.first(name: "Content-Type")?.split(separator: ";").first ?? ""
        return String(type.filter { $0 != " " && $0 != "\t" }).lowercased()
    }

    /// Returns the time that the provider asks the broker to wait; nil if the answer has no such time, or more than an hour.
    ///
    /// The sources are `Retry-After`, in whole seconds or as a date, and then `X-RateLimit-Reset` as Unix time (Clever,
    /// GitHub).
    func retryAfter(at now: WallTime) -> Duration? {
        let field = headers.first(name: "Retry-After")
        let relative = field.flatMap { text in
            Int64(text) ?? HTTPDate.parse(text).map { $0.since(now).wholeSeconds }
        }
        let absolute = headers.first(name: "X-RateLimit-Reset").flatMap { Int64($0) }
        let seconds = relative ?? absolute.map { $0.subtractingReportingOverflow(now.seconds).partialValue }
        return seconds.flatMap { (0...3600).contains($0) ? .seconds($0) : nil }
    }

    /// A description of the answer for the log, without the provider's own text.
    var summary: String { "status \(status), \(body.count) bytes" + (fault.map { ", " + $0.rawValue } ?? "") }

    /// The body with one leading byte order mark removed, which RFC 8259 section 8.1 lets a reader ignore.
    var text: [UInt8] { body.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(body.dropFirst(3)) : body }

    /// The body as a JSON object with unique members; nil otherwise.
    var object: JSONObject? { try? parsedObject() }

    /// Parses the body as a JSON object with unique members.
    ///
    /// With `mendingTexts`, a text with half a surrogate pair is read as null, and `JSONObject.halvedTexts` has the mended
    /// text. Otherwise, such a text makes the body invalid.
    func parsedObject(mendingTexts: Bool = false) throws(JSONFailure) -> JSONObject {
        try JSONParser.parseObject(
            text, maximumBytes: Self.maximumBytes, maximumDepth: 16, mendingTexts: mendingTexts)
    }

    /// A description for the log of an answer that should have been a JSON object, with its fault.
    var summaryOfObject: String {
        if fault != nil || body.isEmpty { return summary }
        do throws(JSONFailure) {
            _ = try parsedObject()
            return summary
        } catch { return summary + ", " + error.words }
    }

    /// Throws for an answer without a decision about the request: 429, 5xx, a redirect, or a missing body (`fault`).
    func requireUsable(at now: WallTime) throws(ProviderFailure) {
        if status == 429 || status >= 500 {
            throw .retryable(status: status, retryAfter: retryAfter(at: now), detail: summary)
        }
        if (300..<400).contains(status) { throw .unusable(detail: "redirect refused, " + summary) }
        if fault != nil { throw .unusable(detail: summary) }
    }
}

extension ProviderAnswer {
    /// The nonce in the answer for the next proof (RFC 9449 section 8.2); nil unless there is exactly one.
    var proofNonce: String? {
        let values = headers["DPoP-Nonce"]
        guard values.count == 1, let value = values.first, ProofNonces.isNonce(value) else { return nil }
        return value
    }

    /// Whether the answer refuses a DPoP proof because of its nonce.
    ///
    /// Servers refuse the nonce with status 400, 401 or 403. They put the error into the body or into one of several
    /// `WWW-Authenticate` challenges.
    var asksForNonce: Bool {
        guard [400, 401, 403].contains(status) else { return false }
        if object?["error"]?.string?.lowercased() == "use_dpop_nonce" { return true }
        return headers["WWW-Authenticate"].contains { field in
            let plain = field.lowercased().filter { $0 != " " && $0 != "\t" && $0 != "\"" }
            return plain.contains("error=use_dpop_nonce")
        }
    }
}

extension ProviderAnswer {
    /// The time for which a document may be cached: `max-age`, limited to between five minutes and a day, or else an hour.
    var lifetime: Duration {
        for directive in headers[canonicalForm: "Cache-Control"] {
            let parts = directive.split(separator: "=")
            if parts.count == 2, parts[0].lowercased() == "max-age", let seconds = Int64(parts[1]) {
                return .seconds(min(max(seconds, 300), 86_400))
            }
        }
        return .seconds(3600)
    }
}
