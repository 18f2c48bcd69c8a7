import Broker
import NIOCore
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

extension ProviderAnswer {
    /// The time for which a document may be kept: `max-age`, between five minutes and a day, else an hour.
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

/// The bytes of a provider's answer that are kept before its body: what comes beyond is no answer.
///
/// The library's own bounds are 2 MiB a head and 80 KiB a field, for each call under way, and it has no setting for
/// them.
enum AnswerLimits {
    /// The bounds for a decoder; trailers count as fields, too.
    private static var decoder: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderListSize = 64 * 1024
        limits.maxHeaderFieldSize = 16 * 1024
        limits.maxHeaderFieldCount = 128
        return limits
    }

    /// Puts a decoder with these bounds in the place of AsyncHTTPClient's, before anything is sent on a new connection.
    @Sendable static func apply(to channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.flatSubmit {
            do {
                let pipeline = channel.pipeline.syncOperations
                let encoder = try pipeline.handler(type: HTTPRequestEncoder.self)
                let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
                let place = NIOLoopBound(encoder, eventLoop: channel.eventLoop)
                // What follows it speaks the decoder's language: the new one is there in the same step in which the old
                // one goes.
                return pipeline.removeHandler(decoder).flatMapThrowing {
                    let bounded = HTTPResponseDecoder(
                        leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .forward,
                        limitConfiguration: Self.decoder)
                    try channel.pipeline.syncOperations.addHandler(
                        ByteToMessageHandler(bounded, maximumBufferSize: 64 * 1024), position: .after(place.value))
                }
            } catch {
                return channel.eventLoop.makeFailedFuture(error)
            }
        }
    }
}
