import NIOHTTP1

/// How much of an answer is kept before its body: what a hostile server sends beyond is no answer.
///
/// NIO's own bounds are 2 MiB a head and 80 KiB a field, for each call under way.
enum AnswerLimits {
    /// Bytes of the names and values of all fields, trailers among them.
    static let head = 64 * 1024

    /// The bounds for a decoder.
    static var decoder: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderListSize = head
        limits.maxHeaderFieldSize = 16 * 1024
        limits.maxHeaderFieldCount = 128
        return limits
    }
}
