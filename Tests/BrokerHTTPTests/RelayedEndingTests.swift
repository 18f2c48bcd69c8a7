import Broker
import BrokerWire
import HTTPTypes
import NIOCore
import Synchronization
import Testing

@testable import BrokerHTTP

/// Relayed calls that a pass has opened, and how they end (guarantee 9).
@Suite(.timeLimit(.minutes(1)))
struct RelayedEndingTests {
    /// A clock that is told of each sleep, and ends it when a test lets it.
    private final class Sleeps: Sendable {
        private let state = Mutex<(asked: [Duration], waiting: [CheckedContinuation<Void, Never>])>(([], []))
        private let passed = Mutex(Duration.zero)

        /// Lets time pass.
        func advance(_ duration: Duration) { passed.withLock { $0 += duration } }

        var clock: BrokerClock {
            BrokerClock(
                now: { WallTime(milliseconds: 1_000_000) }, monotonic: { self.passed.withLock { $0 } }
            ) { duration in
                await withCheckedContinuation { waiting in
                    self.state.withLock { state in
                        state.asked.append(duration)
                        state.waiting.append(waiting)
                    }
                }
            }
        }

        var asked: [Duration] { state.withLock(\.asked) }

        func endAll() {
            for waiting in state.withLock({ state in
                defer { state.waiting = [] }
                return state.waiting
            }) { waiting.resume() }
        }
    }

    private final class Written: BodyWriter {
        private let state = Mutex((pieces: 0, isFinished: false))
        func write(_ buffer: ByteBuffer) async throws { state.withLock { $0.pieces += 1 } }
        func finish(_ trailers: HTTPFields?) async throws { state.withLock { $0.isFinished = true } }
        var isFinished: Bool { state.withLock(\.isFinished) }
        var pieces: Int { state.withLock(\.pieces) }
    }

    /// Writes an endless body whose call's pass had 60 s left, `late` after the call began, and ends the wait once a piece is
    /// written.
    private func write(isEventStream: Bool, late: Duration = .zero) async -> (
        asked: [Duration], isFinished: Bool, wasCut: Bool
    ) {
        let sleeps = Sleeps()
        let written = Written()
        let ending = RelayedEnding(passEndsAt: WallTime(milliseconds: 1_060_000), sleeps.clock)
        sleeps.advance(late)
        let (body, pieces) = AsyncThrowingStream.makeStream(of: ByteBuffer.self)
        pieces.yield(ByteBuffer(string: "a"))
        async let wasCut = {
            do {
                try await ending.write(body, isEventStream: isEventStream, to: written)
                return false
            } catch { return true }
        }()
        while written.pieces == 0 || sleeps.asked.isEmpty { await Task.yield() }
        #expect(!written.isFinished)
        sleeps.endAll()
        return (sleeps.asked, written.isFinished, await wasCut)
    }

    @Test("An event stream ends with the pass that opened it, as one that has no more to say")
    func eventStream() async {
        let end = await write(isEventStream: true)
        #expect(end.asked == [.seconds(60)])
        #expect(!end.wasCut)
    }

    @Test("Neither a slow upload nor a slow upstream moves the end")
    func late() async {
        #expect(await write(isEventStream: true, late: .seconds(40)).asked == [.seconds(20)])
        #expect(await write(isEventStream: true, late: .seconds(90)).asked == [.zero])
        #expect(await write(isEventStream: false, late: .seconds(3000)).asked == [.seconds(660)])
    }

    @Test("Anything else is cut an hour after the pass has ended")
    func download() async {
        let end = await write(isEventStream: false)
        #expect(end.asked == [.seconds(3660)])
        #expect(end.wasCut && !end.isFinished)
    }
}
