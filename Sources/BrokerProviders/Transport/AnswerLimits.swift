import NIOCore
import NIOHTTP1

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
