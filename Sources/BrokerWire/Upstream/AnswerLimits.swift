import NIOHTTP1

/// The limits on an answer's heads and trailers, which protect against a hostile upstream.
///
/// NIO's own limits are 2 MiB for a head and 80 KiB for a field, for each call in progress.
enum AnswerLimits {
    /// The largest number of bytes of all header fields' names and values, including trailers.
    static let head = 64 * 1024

    /// The limits for NIO's decoder.
    static var decoder: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderListSize = head
        limits.maxHeaderFieldSize = 16 * 1024
        limits.maxHeaderFieldCount = 128
        return limits
    }
}
