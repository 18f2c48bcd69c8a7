import Broker
import Hummingbird
import NIOCore
import NIOHTTP1
import Synchronization

/// An app's request body on its way to an upstream: it ends with `request_timeout` when the app is waited for too long.
///
/// Time that the upstream takes does not count: nobody waits for the app then (engineering note 4).
struct RelayedBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    private let body: RequestBody
    private let watch: Watch

    init(_ call: Call, progress: Duration) {
        body = call.stream
        watch = Watch(channel: call.channel, progress: progress)
    }

    /// Whether the body was read to its end, so that another request may follow on the connection.
    var isFinished: Bool { watch.isFinished }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(base: body.makeAsyncIterator(), watch: watch) }

    struct AsyncIterator: AsyncIteratorProtocol {
        var base: RequestBody.AsyncIterator
        let watch: Watch

        @concurrent mutating func next() async throws -> ByteBuffer? {
            watch.begin()
            do {
                let chunk = try await base.next()
                watch.end(finished: chunk == nil)
                return chunk
            } catch is BodyTimeout {
                throw BrokerProblem(.requestTimeout)
            } catch is HTTPParserError {
                throw BrokerProblem(.invalidRequest, detail: "The request's body is not well-formed HTTP/1.1.")
            }
        }
    }

    /// Looks from time to time whether the app is waited for too long.
    ///
    /// One timer for a body, not one for every chunk.
    final class Watch: Sendable {
        private struct State {
            var waitingSince: NIODeadline?
            var isFinished = false
            var timer: RepeatedTask?
        }

        private let channel: any Channel
        private let progress: TimeAmount
        private let state = Mutex(State())

        init(channel: any Channel, progress: Duration) {
            self.channel = channel
            self.progress = TimeAmount(progress)
        }

        deinit { state.withLock { $0.timer }?.cancel() }

        var isFinished: Bool { state.withLock { $0.isFinished } }

        func begin() {
            let isFirst = state.withLock { state in
                state.waitingSince = .now()
                return state.timer == nil
            }
            guard isFirst else { return }
            let step = TimeAmount.nanoseconds(Swift.max(progress.nanoseconds / 4, 1_000_000))
            let timer = channel.eventLoop.scheduleRepeatedTask(initialDelay: step, delay: step) { [weak self] task in
                guard let self else { return task.cancel() }
                check()
            }
            state.withLock { $0.timer = timer }
        }

        func end(finished: Bool) {
            let timer = state.withLock { state in
                state.waitingSince = nil
                state.isFinished = finished
                return finished ? state.timer : nil
            }
            timer?.cancel()
        }

        private func check() {
            let isLate = state.withLock { state in
                guard let since = state.waitingSince, .now() - since > progress else { return false }
                state.waitingSince = nil
                return true
            }
            // The error travels the way of the body's parts and ends the wait for the next one.
            if isLate { channel.pipeline.fireErrorCaught(BodyTimeout()) }
        }
    }
}
