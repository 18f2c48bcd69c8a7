package import Broker
package import BrokerWire

/// The limits of the public listener (`limits` in the configuration).
package struct HTTPLimits: Sendable {
    /// The limits on logins and wrong secrets of an address in a minute, and the caps on pending rows.
    package var charges = ChargeLimits()
    /// The largest number of bytes of a JSON or form body.
    package var body = 64 * 1024
    /// The largest number of bytes of a request body that lists every setting of a configuration.
    static let largeBody = 1 << 20
    /// The largest number of bytes of a relayed request body.
    package var relayBody = 1024 * 1024 * 1024
    /// The largest number of open connections of one address.
    package var connectionsPerAddress = 512
    /// The largest number of open connections of one address that have not carried a live session yet.
    package var anonymousConnectionsPerAddress = 128
    /// The largest number of bytes in unanswered requests of one address, except requests of live sessions.
    package var heldBytesPerAddress = 8 * 1024 * 1024
    /// The largest number of bytes in unanswered requests of a trusted proxy.
    ///
    /// For a trusted proxy, this limit replaces `heldBytesPerAddress`.
    package var heldBytesOfProxy = 64 * 1024 * 1024
    /// The longest total time for a JSON or form body.
    package var bodyDeadline: Duration = .seconds(30)
    /// The lowest average rate of a relayed body, in bytes per second.
    ///
    /// Only the time that the broker waits for the app counts.
    package var relayMinimumRate = 1024
    /// The time over which one average of the rate is taken; only the time spent waiting for the app counts.
    package var relayRateWindow: Duration = .seconds(30)
    /// The time spent waiting for the app before the first average begins.
    package var relayRateGrace: Duration = .seconds(10)
    /// The longest total time for a relayed upload.
    package var relayUploadDeadline: Duration = .seconds(3600)
    /// The time that a relayed answer may continue after its session's end, unless it is an event stream.
    ///
    /// The configuration cannot change it.
    var relayedGrace: Duration = .seconds(5)
    /// The time between two comments in an event stream, which keep the connection open.
    package var eventHeartbeat: Duration = .seconds(25)
    package var connection = ConnectionLimits()

    package init() {}

    /// Allows the cookie of an old system (`move_in.cookie`) in addition to the other fields of a request.
    package mutating func allowOldCookie() { connection.allowLargeCookie(of: LegacyCookie.maximumBytes) }
}
