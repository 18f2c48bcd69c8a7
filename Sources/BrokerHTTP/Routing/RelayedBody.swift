import Broker
import BrokerWire
import NIOCore
import Synchronization

/// An app's request body on its way to an upstream.
///
/// The body fails with `request_timeout` if the app sends too slowly, or if the whole upload takes too long. For the rate,
/// only the time counts in which the broker waits for the app. While the upstream is slow, the broker does not wait for the
/// app (library note 3).
struct RelayedBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    private let body: RequestBody
    private let watch: Watch
    private let use: SessionUse?

    /// Creates the body of a call; `longest` is a further time limit, and `use` is notified of each piece.
    init(_ call: Call, limits: HTTPLimits, within longest: Duration? = nil, use: SessionUse? = nil) {
        body = call.stream
        self.use = use
        watch = Watch(body: call.stream, eventLoop: call.eventLoop, limits: limits, within: longest)
    }

    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(base: body.makeAsyncIterator(), watch: watch, use: use)
    }

    struct AsyncIterator: AsyncIteratorProtocol {
        var base: RequestBody.AsyncIterator
        let watch: Watch
        let use: SessionUse?

        @concurrent mutating func next() async throws -> ByteBuffer? {
            watch.begin()
            do {
                let chunk = try await base.next()
                watch.end(chunk)
                use?.carries()
                return chunk
            } catch {
                watch.giveUp()
                if let fault = error as? BodyFault { throw BodyReader.problem(fault) }
                throw error
            }
        }
    }

    /// Checks periodically whether the app sends too slowly.
    ///
    /// One timer serves the whole body, instead of one for each chunk.
    final class Watch: Sendable {
        private struct State {
            var rate: ProgressRate
            var begun: NIODeadline?
            /// The time since which the broker waits for the app; nil at other times.
            var waitingSince: NIODeadline?
            /// The total of all earlier waits for the app, in nanoseconds.
            var waited: Int64 = 0
            var timer: RepeatedTask?

            func waited(at now: NIODeadline) -> Int64 {
                waitingSince.map { waited + (now - $0).nanoseconds } ?? waited
            }
        }

        private let body: RequestBody
        private let eventLoop: any EventLoop
        private let deadline: TimeAmount
        private let step: TimeAmount
        private let state: Mutex<State>

        init(body: RequestBody, eventLoop: any EventLoop, limits: HTTPLimits, within longest: Duration?) {
            self.body = body
            self.eventLoop = eventLoop
            deadline = TimeAmount(
                longest.map { Swift.min($0, limits.relayUploadDeadline) } ?? limits.relayUploadDeadline)
            let window = TimeAmount(limits.relayRateWindow).nanoseconds
            step = .nanoseconds(Swift.max(window / 10, 1_000_000))
            let rate = ProgressRate(
                bytesPerSecond: limits.relayMinimumRate, window: window,
                grace: TimeAmount(limits.relayRateGrace).nanoseconds)
            state = Mutex(State(rate: rate))
        }

        deinit { state.withLock { $0.timer }?.cancel() }

        func begin() {
            let isFirst = state.withLock { state in
                let now = NIODeadline.now()
                state.waitingSince = now
                guard state.begun == nil else { return false }
                state.begun = now
                return true
            }
            guard isFirst else { return }
            let timer = eventLoop.scheduleRepeatedTask(initialDelay: step, delay: step) { [weak self] task in
                guard let self else { return task.cancel() }
                check()
            }
            state.withLock { $0.timer = timer }
        }

        /// Ends a wait for the app, with the received piece or with nil at the body's end.
        func end(_ chunk: ByteBuffer?) {
            let timer = state.withLock { state -> RepeatedTask? in
                state.waited = state.waited(at: .now())
                state.waitingSince = nil
                guard let chunk else { return state.timer }
                state.rate.account(chunk.readableBytes, at: state.waited)
                return nil
            }
            timer?.cancel()
        }

        /// Ends the checks, because no further piece will be read.
        func giveUp() {
            let timer = state.withLock { state in
                state.waitingSince = nil
                return state.timer
            }
            timer?.cancel()
        }

        private func check() {
            let isLate = state.withLock { state in
                let now = NIODeadline.now()
                if let begun = state.begun, now - begun > deadline { return true }
                return state.waitingSince != nil && state.rate.isBelow(at: state.waited(at: now))
            }
            guard isLate else { return }
            giveUp()
            // Abandoning the body ends the wait for the next piece.
            body.abandon(.timedOut)
        }
    }
}
