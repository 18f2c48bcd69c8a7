import Broker
import NIOHTTP1

/// A provider's whole answer, whatever its status.
struct ProviderAnswer: Sendable {
    /// The most that is read of a body, after decompression.
    static let maximumBytes = 1 << 20

    let status: Int
    let headers: HTTPHeaders
    /// The body; empty when `fault` says why it cannot be used.
    let body: [UInt8]
    /// The fault for which the body is missing although the provider answered.
    let fault: Fault?

    enum Fault: String, Sendable {
        case tooLarge = "the body is over 1 MiB"
        case undecodable = "the body's compression is broken"
    }

    /// The first value of a field, or nil.
    func header(_ name: String) -> String? { headers.first(name: name) }

    var isSuccess: Bool { (200..<300).contains(status) }

    /// The media type in lower case, without parameters.
    var mediaType: String {
        let type = headers.first(name: "Content-Type")?.split(separator: ";").first ?? ""
        return String(type.filter { $0 != " " && $0 != "\t" }).lowercased()
    }

    /// The time to wait: `Retry-After` in whole seconds or as a date, else `X-RateLimit-Reset` as Unix time (Clever,
    /// GitHub); an hour at most.
    func retryAfter(at now: WallTime) -> Duration? {
        let field = headers.first(name: "Retry-After")
        let relative = field.flatMap { text in
            Int64(text) ?? HTTPDate.parse(text).map { $0.since(now).wholeSeconds }
        }
        let absolute = headers.first(name: "X-RateLimit-Reset").flatMap { Int64($0) }
        let seconds = relative ?? absolute.map { $0.subtractingReportingOverflow(now.seconds).partialValue }
        return seconds.flatMap { (0...3600).contains($0) ? .seconds($0) : nil }
    }

    /// The description for the log: nothing that the provider wrote.
    var summary: String { "status \(status), \(body.count) bytes" + (fault.map { ", " + $0.rawValue } ?? "") }

    /// The body as a JSON object without repeated members, or nil.
    var object: JSONObject? {
        try? JSONParser.parseObject(body, maximumBytes: Self.maximumBytes, maximumDepth: 16)
    }

    /// Throws what a status means that says nothing about the request itself: 429, 5xx, a redirect.
    func requireUsable(at now: WallTime) throws(ProviderFailure) {
        if status == 429 || status >= 500 {
            throw .retryable(status: status, retryAfter: retryAfter(at: now), detail: summary)
        }
        if (300..<400).contains(status) { throw .unusable(detail: "redirect refused, " + summary) }
        if fault != nil { throw .unusable(detail: summary) }
    }
}
