import AsyncHTTPClient
import NIOCore

/// Which addresses a connection may end at, checked on the address that was really connected to (SEC-74).
enum AddressPolicy: Sendable, CaseIterable {
    /// A provider out on the internet.
    case publicOnly
    /// A provider whose configured URL is loopback itself (development, tests).
    case loopbackOnly
    /// A provider that the configuration marks as internal.
    case any

    /// The refusal of an address.
    struct Refused: Error {}

    /// Returns whether a connection to the address may be used.
    func allows(_ address: SocketAddress?) -> Bool {
        guard self != .any else { return true }
        guard let text = address?.ipAddress, let parsed = IPAddress(text) else { return false }
        return self == .publicOnly ? parsed.isPublic : parsed.isLoopback
    }

    /// Returns what AsyncHTTPClient runs on a new connection before it sends anything on it.
    var initializer: @Sendable (any Channel) -> EventLoopFuture<Void> {
        { channel in
            guard !self.allows(channel.remoteAddress) else { return channel.eventLoop.makeSucceededVoidFuture() }
            channel.close(promise: nil)
            return channel.eventLoop.makeFailedFuture(Refused())
        }
    }
}
