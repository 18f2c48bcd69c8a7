import AsyncHTTPClient
import Broker
import NIOCore

extension AddressPolicy {
    /// The refusal of an address.
    struct Refused: Error {}

    /// Returns what AsyncHTTPClient runs on a new connection before it sends anything on it.
    var initializer: @Sendable (any Channel) -> EventLoopFuture<Void> {
        { channel in
            guard !self.allows(channel.remoteAddress?.ipAddress.flatMap { IPAddress($0) }) else {
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            channel.close(promise: nil)
            return channel.eventLoop.makeFailedFuture(Refused())
        }
    }
}
