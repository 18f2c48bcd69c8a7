import Broker
import BrokerWire
import NIOCore
import Synchronization

/// A relayed answer that is written in pieces, and that ends early if its session (guarantee 6) or its pass ends.
///
/// - An event stream without a `Content-Length` ends at once, as if its body were complete.
/// - For any other answer, the broker cuts the connection, so that the app notices the incomplete body. The cut comes five
///   seconds after the session's end, or an hour after the pass's end.
final class RelayedAnswer: Sendable {
    /// The part of the answer that `SessionNotices` holds as a follower; it can end the answer from any thread.
    private final class Ending: SessionFollower {
        private struct State {
            var isOver = false
            var isCut = false
            /// Whether the writing of the answer has ended, at its end or at its cut.
            var isWritten = false
            var writer: (any BodyWriter)?
            var timers: [Scheduled<Void>] = []
        }

        private let isEventStream: Bool
        private let grace: Duration
        private let eventLoop: any EventLoop
        /// Closes the upstream's connection, which ends the wait for the next piece.
        private let close: @Sendable () -> Void
        private let state = Mutex(State())

        init(
            isEventStream: Bool, grace: Duration, on eventLoop: any EventLoop, close: @escaping @Sendable () -> Void
        ) {
            self.isEventStream = isEventStream
            self.grace = grace
            self.eventLoop = eventLoop
            self.close = close
        }

        /// Whether writing must stop.
        var isOver: Bool { state.withLock { $0.isOver } }
        var isCut: Bool { state.withLock { $0.isCut } }

        func sessionEnded(_ reason: EndReason?) { end(in: isEventStream ? .zero : grace) }

        /// Ends the answer after the given time, unless its writing has ended before.
        func end(in time: Duration) {
            guard time > .zero else { return end() }
            let timer = eventLoop.scheduleTask(in: TimeAmount(time)) { [weak self] in
                self?.end()
                return
            }
            state.withLock { $0.timers.append(timer) }
        }

        private func end() {
            let (isLate, writer) = state.withLock { state -> (Bool, (any BodyWriter)?) in
                state.isOver = true
                state.isCut = state.isCut || !isEventStream
                return (state.isWritten, state.isCut ? state.writer : nil)
            }
            guard !isLate else { return }
            close()
            // `cut` discards the pieces that are not sent yet, so it works even if the app has stopped reading.
            writer?.cut()
        }

        func begins(_ writer: any BodyWriter) { state.withLock { $0.writer = writer } }

        /// Cancels the timers, and releases the writer.
        func ends() {
            let timers = state.withLock { state in
                state.isWritten = true
                defer { (state.writer, state.timers) = (nil, []) }
                return state.timers
            }
            for timer in timers { timer.cancel() }
        }
    }

    private let ending: Ending
    /// The session use that each piece is reported to; nil if the answer does not count as a use.
    private let use: SessionUse?
    private let register: ListenToSession
    /// The answer's entry as a follower in `SessionNotices`, removed when the answer is released.
    private let place: SessionNotices.Place

    /// Adds an answer as a follower of its session; `close` closes the upstream's connection, from any thread.
    ///
    /// After this call, look up the session. The lookup finds an ending from before this call, and `register` reports an
    /// ending from after this call.
    init(
        of session: LiveSession, in register: ListenToSession, isEventStream: Bool, grace: Duration, use: SessionUse?,
        on eventLoop: any EventLoop, close: @escaping @Sendable () -> Void
    ) {
        ending = Ending(isEventStream: isEventStream, grace: grace, on: eventLoop, close: close)
        self.use = use
        self.register = register
        place = register.follow(session, ending)
    }

    deinit {
        register.forget(place)
        ending.ends()
    }

    /// Ends the answer after the given time, because the pass in its request ends.
    func end(in time: Duration) { ending.end(in: time) }

    /// Writes the answer's body until the body is complete, or until `end` ends the answer.
    ///
    /// Throws if the upstream's body breaks off. The connection is then cut, because an incomplete body must not look
    /// complete.
    @concurrent func write(
        _ body: some AsyncSequence<ByteBuffer, any Error> & Sendable, to writer: any BodyWriter
    ) async throws {
        ending.begins(writer)
        defer { ending.ends() }
        do {
            for try await piece in body {
                guard !ending.isOver else { break }
                try await writer.write(piece)
                use?.carries()
            }
        } catch {
            guard ending.isOver else { throw error }
        }
        if ending.isCut { throw Cut() }
        try await writer.finish(nil)
    }

    /// The error that cuts the answer when its time after the end of the session or pass is over.
    private struct Cut: Error {}
}
