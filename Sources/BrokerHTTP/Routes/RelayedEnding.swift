import Broker
import BrokerWire
import NIOCore

/// The end of a relayed call that a pass has opened (docs/bound-sessions.md); one that a proof has opened ends by itself.
struct RelayedEnding: Sendable {
    /// The time after its pass that a call may go on which is no event stream: long enough for a large transfer.
    private static let grace = Duration.seconds(3600)

    /// The pass's end on the monotonic clock: neither a slow upload nor a slow upstream moves it.
    private let passEnd: Duration
    private let clock: BrokerClock

    /// Creates the end of a call that is made with a pass.
    init(passEndsAt: WallTime, _ clock: BrokerClock) {
        passEnd = clock.monotonic() + max(passEndsAt.since(clock.now()), .zero)
        self.clock = clock
    }

    /// The most time that the call may take from now on, its request and its answer.
    var longest: Duration { max(passEnd + Self.grace - clock.monotonic(), .zero) }

    /// Writes an answer's body until it ends.
    ///
    /// At the pass's end an event stream of no announced length ends as one that has no more to say, and its app asks again;
    /// everything else is cut an hour later, so that it does not look whole.
    func write(
        _ body: some AsyncSequence<ByteBuffer, any Error> & Sendable, isEventStream: Bool, to writer: any BodyWriter
    ) async throws {
        let rest = isEventStream ? max(passEnd - clock.monotonic(), .zero) : longest
        let isWhole = try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                for try await piece in body { try await writer.write(piece) }
                return true
            }
            group.addTask { [clock] in
                try await clock.sleep(rest)
                return false
            }
            defer { group.cancelAll() }
            return try await group.next() ?? true
        }
        guard isWhole || isEventStream else { throw Cut() }
        try await writer.finish(nil)
    }

    /// The pass ended an hour ago.
    private struct Cut: Error {}
}
