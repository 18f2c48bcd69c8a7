import NIOCore
import NIOHTTP1

/// The limits on the head of a provider's answer; a larger head makes the call fail.
///
/// The library's own limits are fixed at 2 MiB for a header and 80 KiB for a field, for each concurrent call.
enum AnswerLimits {
    /// The limits for the decoder of an answer; trailer fields count as header fields.
    private static var decoder: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderListSize = 64 * 1024
        limits.maxHeaderFieldSize = 16 * 1024
        limits.maxHeaderFieldCount = 128
        return limits
    }

    /// Replaces AsyncHTTPClient's decoder by a decoder with limits, before any byte is sent on a new connection.
    @Sendable static func apply(to channel: any Channel) -> EventLoopFuture<Void> {
        channel.eventLoop.flatSubmit {
            do {
                let pipeline = channel.pipeline.syncOperations
                let encoder = try pipeline.handler(type: HTTPRequestEncoder.self)
                let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPResponseDecoder>.self)
                let place = NIOLoopBound(encoder, eventLoop: channel.eventLoop)
                // The later handlers in the pipeline need the decoder's output. So the new decoder replaces the old decoder in
                // one step.
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
