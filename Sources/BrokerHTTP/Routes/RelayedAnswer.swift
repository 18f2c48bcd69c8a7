import Broker
import BrokerWire
import NIOCore
import Synchronization

/// A relayed answer that is written piece by piece, and the ends that it may meet before its own: its session's (guarantee 6),
/// and that of the pass that opened it.
///
/// An event stream of no announced length ends as one that has no more to say, and its app asks again. Everything else is cut,
/// so that it does not look whole: five seconds after its session's end, an hour after its pass's. It costs no task of its own.
final class RelayedAnswer: Sendable {
    /// The part of it that the register of sessions holds: it ends the answer, from any thread.
    private final class Ending: SessionFollower {
        private struct State {
            var isOver = false
            var isCut = false
            /// Whether it has been written to its end, or to where it was cut.
            var isWritten = false
            var writer: (any BodyWriter)?
            var timers: [Scheduled<Void>] = []
        }

        private let isEventStream: Bool
        private let grace: Duration
        private let eventLoop: any EventLoop
        /// Closes the upstream's connection, which ends the wait for its next piece.
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

        /// Whether nothing more is to be written.
        var isOver: Bool { state.withLock { $0.isOver } }
        var isCut: Bool { state.withLock { $0.isCut } }

        func sessionEnded(_ reason: EndReason?) { end(in: isEventStream ? .zero : grace) }

        /// Ends the answer after a time, unless it has ended by then.
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
            // Whatever the client has not read is thrown away, also where it reads nothing.
            writer?.cut()
        }

        func begins(_ writer: any BodyWriter) { state.withLock { $0.writer = writer } }

        /// Forgets what would have ended it.
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
    /// The use of its session; nil where nothing slides.
    private let use: SessionUse?
    private let register: ListenToSession
    /// Its place in the register, which it leaves when nobody holds it any more.
    private let place: SessionNotices.Place

    /// Enters an answer of a session in the register; `close` closes its upstream's connection, from any thread.
    ///
    /// The session is to be looked up after this: an ending before that is found by the look, and one behind it is told.
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

    /// Has the answer end after a time: when the pass that opened it does.
    func end(in time: Duration) { ending.end(in: time) }

    /// Writes the answer's body until it or the answer ends.
    ///
    /// An upstream that breaks off throws here, and the connection is cut: a body that is not whole must not look so.
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

    /// The session, or the pass, ended some time ago.
    private struct Cut: Error {}
}
