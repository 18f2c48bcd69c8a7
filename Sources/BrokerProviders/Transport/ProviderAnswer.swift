import Broker
import NIOHTTP1

/// Is a provider's whole answer, whatever its status.
struct ProviderAnswer: Sendable {
    /// The most that is read of a body, after decompression.
    static let maximumBytes = 1 << 20

    let status: Int
    let headers: HTTPHeaders
    /// The body; empty when `fault` says why it cannot be used.
    let body: [UInt8]
    /// Why the body is not there although the provider answered.
    let fault: Fault?

    enum Fault: String, Sendable {
        case tooLarge = "the body is over 1 MiB"
        case undecodable = "the body's compression is broken"
    }

    var isSuccess: Bool { (200..<300).contains(status) }

    /// The media type in lower case, without parameters.
    var mediaType: String {
        let type = headers.first(name: "Content-Type")?.split(separator: ";").first ?? ""
        return String(type.filter { $0 != " " && $0 != "\t" }).lowercased()
    }

    /// `Retry-After` in whole seconds, at most an hour; a date is not believed.
    var retryAfter: Duration? {
        guard let text = headers.first(name: "Retry-After"), let seconds = Int64(text), (0...3600).contains(seconds)
        else { return nil }
        return .seconds(seconds)
    }

    /// What the log may know of the answer: nothing that the provider wrote.
    var summary: String { "status \(status), \(body.count) bytes" + (fault.map { ", " + $0.rawValue } ?? "") }

    /// The body as a JSON object without repeated members, or nil.
    var object: JSONObject? {
        try? JSONParser.parseObject(body, maximumBytes: Self.maximumBytes, maximumDepth: 16)
    }

    /// Throws what a status means that says nothing about the request itself: 429, 5xx, a redirect.
    func requireUsable() throws(ProviderFailure) {
        if status == 429 || status >= 500 { throw .retryable(status: status, retryAfter: retryAfter, detail: summary) }
        if (300..<400).contains(status) { throw .unusable(detail: "redirect refused, " + summary) }
        if fault != nil { throw .unusable(detail: summary) }
    }
}
