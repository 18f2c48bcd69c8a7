package import NIOCore

/// How many connections to an upstream are kept, and how long things may take.
package struct UpstreamLimits: Sendable {
    /// How many are kept without a call, by an event loop.
    package var kept = 1024
    /// How long one is kept without a call, at most.
    package var idle: TimeAmount = .seconds(30)
    /// The longest silence within an answer.
    package var silence: TimeAmount = .seconds(60)
    /// How long an answer's head waits for the first piece of its body: until then an upstream that breaks off is an answer
    /// of ours, and not half of one of its own.
    package var hold: TimeAmount = .seconds(1)
    /// How long an upstream may take to close a connection that ends with its answer, and how many such an event loop
    /// waits for.
    package var linger: TimeAmount = .milliseconds(500)
    package var lingering = 64
    /// The longest time to connect, TLS included.
    package var connect: TimeAmount = .seconds(5)

    package init() {}

    /// How long a connection is kept, in nanoseconds: not all of them equally long, so that what was opened together is
    /// not all opened anew together.
    var idleOfOne: Int64 { .random(in: idle.nanoseconds * 4 / 5...max(idle.nanoseconds, 0)) }
}
