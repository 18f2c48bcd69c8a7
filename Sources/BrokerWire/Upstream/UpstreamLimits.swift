package import NIOCore

/// The limits of one upstream's connections: the number of idle connections, and the times.
package struct UpstreamLimits: Sendable {
    /// The number of idle connections that an event loop keeps.
    package var kept = 1024
    /// The longest time that a connection may be idle before it is closed.
    package var idle: TimeAmount = .seconds(30)
    /// The longest time without input within an answer.
    package var silence: TimeAmount = .seconds(60)
    /// The time that an answer's head waits for the first piece of its body.
    ///
    /// If the upstream breaks off within this time, the app receives a complete error from the broker instead of half an
    /// answer.
    package var hold: TimeAmount = .seconds(1)
    /// The time that the upstream has to close a connection after its last answer, and the largest number of such connections
    /// for each event loop.
    package var linger: TimeAmount = .milliseconds(500)
    package var lingering = 64
    /// The longest time to connect, including the TLS handshake.
    package var connect: TimeAmount = .seconds(5)

    package init() {}

    /// The time that one idle connection is kept, in nanoseconds.
    ///
    /// The time varies, so that connections which were opened together do not all close together.
    var idleOfOne: Int64 { .random(in: idle.nanoseconds * 4 / 5...max(idle.nanoseconds, 0)) }
}
