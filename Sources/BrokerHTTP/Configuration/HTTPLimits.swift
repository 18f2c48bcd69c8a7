package import Broker
package import BrokerWire

/// The bounds of what the public listener takes (`limits` in the configuration).
package struct HTTPLimits: Sendable {
    /// What an address may begin and miss in a minute, and the caps on what waits.
    package var charges = ChargeLimits()
    /// Bytes of a JSON or form body.
    package var body = 64 * 1024
    /// Bytes of a body that names every setting of a configuration.
    static let largeBody = 1 << 20
    /// Bytes of a relayed request body.
    package var relayBody = 1024 * 1024 * 1024
    /// Open connections of one address.
    package var connectionsPerAddress = 512
    /// Open connections of one address until one of them has carried a live session.
    package var anonymousConnectionsPerAddress = 128
    /// Bytes received from one address and not yet answered, those of live sessions aside.
    package var heldBytesPerAddress = 8 * 1024 * 1024
    /// The same for a trusted proxy.
    package var heldBytesOfProxy = 64 * 1024 * 1024
    /// How long a JSON or form body may take in all.
    package var bodyDeadline: Duration = .seconds(30)
    /// The lowest average rate of a relayed body, in bytes a second of the time that its app is waited for.
    package var relayMinimumRate = 1024
    /// How much of that time the average is taken over.
    package var relayRateWindow: Duration = .seconds(30)
    /// How much of that time goes before the first window.
    package var relayRateGrace: Duration = .seconds(10)
    /// How long a relayed upload may take in all.
    package var relayUploadDeadline: Duration = .seconds(3600)
    /// Between two comments of an event stream.
    package var eventHeartbeat: Duration = .seconds(25)
    package var connection = ConnectionLimits()

    package init() {}
}
