import Broker
import BrokerWire
import HTTPTypes
import NIOCore

/// One response to `GET /v1/session/events`, which consists of notices and comments.
///
/// The stream ends when the session or the request's pass ends, a newer stream replaces it, the client leaves, or the
/// process stops.
struct EventStream: Sendable {
    private enum Tick: Sendable {
        case notice(SessionNotice)
        case heartbeat
        /// The pass in the request of this stream has ended.
        case passEnded
    }

    private let session: Digest
    private let sessions: ResumeSession
    private let ticks: AsyncStream<Tick>
    private let continuation: AsyncStream<Tick>.Continuation
    private let subscription: Subscription
    private let eventLoop: any EventLoop
    private let connection: ClientConnection?
    /// The end time of the request's pass; nil if the stream lasts as long as its session.
    private let end: NIODeadline?

    /// Begins to listen to a session, for at most the time `rest`; without `rest`, until the session ends.
    init(
        _ events: ListenToSession, _ live: LiveSession, lookedUpBy sessions: ResumeSession, on call: Call,
        until rest: Duration? = nil
    ) {
        end = rest.map { .now() + TimeAmount(max($0, .zero)) }
        let session = live.tokenDigest
        self.session = session
        self.sessions = sessions.waiting
        let (ticks, continuation) = AsyncStream.makeStream(of: Tick.self, bufferingPolicy: .bufferingNewest(16))
        self.ticks = ticks
        self.continuation = continuation
        subscription = events.listen(live) { notice in
            continuation.yield(.notice(notice))
            switch notice {
            case .tokensRefreshed, .presenceKeyChanged: break
            case .ended, .superseded: continuation.finish()
            }
        }
        eventLoop = call.eventLoop
        connection = call.connection
    }

    /// Writes events until the stream ends.
    ///
    /// The session is read again at each heartbeat, for two reasons:
    /// - If the session lapses, there is no notice.
    /// - If another replica ends the session, its notice can be lost.
    ///
    /// The stream never delays a shutdown, because it ends when the server begins to quiesce.
    @concurrent func write(
        _ first: SessionView, every heartbeat: Duration, to writer: any BodyWriter
    ) async throws {
        let forgetGone = connection?.whenGone { [continuation] in continuation.finish() }
        let forgetQuiescing = connection?.whenQuiescing { [continuation] in continuation.finish() }
        let timer = eventLoop.scheduleRepeatedTask(
            initialDelay: TimeAmount(heartbeat), delay: TimeAmount(heartbeat)
        ) { [continuation] _ in continuation.yield(.heartbeat) }
        let ending = end.map { end in
            eventLoop.scheduleTask(deadline: end) { [continuation] in
                _ = continuation.yield(.passEnded)
            }
        }
        defer {
            timer.cancel()
            ending?.cancel()
            forgetGone?()
            forgetQuiescing?()
        }
        try await writer.write(Self.event("session", SessionBody.bytes(first)))
        ticks: for await tick in ticks {
            switch tick {
            case .heartbeat:
                switch await state() {
                case .alive: try await writer.write(Self.comment)
                case .ended(let reason):
                    if let reason { try await writer.write(Self.end(reason)) }
                    break ticks
                }
            case .notice(.tokensRefreshed): try await writer.write(Self.event("tokens_refreshed", Array("{}".utf8)))
            case .notice(.presenceKeyChanged):
                try await writer.write(Self.event("session.presence_key_changed", Array("{}".utf8)))
            case .notice(.ended(let reason)):
                try await writer.write(Self.end(reason))
                break ticks
            // The session continues. Its client opens a new stream with a proof or a new pass.
            case .passEnded: break ticks
            case .notice(.superseded):
                // The session continues. This stream ends because newer streams of the session have replaced it, and its client
                // may open a new one.
                break ticks
            }
        }
        try await writer.finish(nil)
        withExtendedLifetime(subscription) {}
    }

    private enum State {
        case alive
        /// The session has ended; the reason is nil if the store no longer knows the session.
        case ended(EndReason?)
    }

    /// Returns whether the session is alive, or why it ended.
    ///
    /// If the session cannot be read, it counts as alive (guarantee 3).
    private func state() async -> State {
        do throws(BrokerProblem) {
            try await sessions.checkLives(session)
            return .alive
        } catch {
            switch error.code {
            case .sessionEnded, .sessionRequired: return .ended(error.reason)
            default: return .alive
            }
        }
    }

    private static func end(_ reason: EndReason) -> ByteBuffer {
        var body = JSONWriter(capacity: 48)
        body.object { $0.member("reason", reason.rawValue) }
        return event("session_ended", body.bytes)
    }

    private static let comment = ByteBuffer(string: ":\n\n")

    private static func event(_ name: String, _ data: [UInt8]) -> ByteBuffer {
        var buffer = ByteBuffer()
        buffer.writeString("event: \(name)\ndata: ")
        buffer.writeBytes(data)
        buffer.writeString("\n\n")
        return buffer
    }
}

extension BrokerAPI {
    /// `POST /v1/session/refresh`: refreshes the provider's tokens now.
    @Sendable func refreshSession(_ call: Call) async throws(BrokerProblem) -> Answer {
        let session = try await credentials(call).open(admitting: .exceptChildren).session
        return Answers.json(.ok, SessionBody.bytes(try await useCases.refreshTokens.refreshNow(session)), call)
    }

    /// `GET /v1/session/events`: the session's events, as server-sent events.
    @Sendable func sessionEvents(_ call: Call) async throws(BrokerProblem) -> Answer {
        let presented = try await credentials(call).open()
        let session = presented.session
        var fields = Answers.fields(call.requestID)
        fields.append(ConstantFields.eventStream)
        fields.append(ConstantFields.unbuffered)
        guard !call.isHead else { return Answer(.ok, fields) }
        // Subscribe before the session is looked up again. In the other order, an ending between the two steps would be
        // missed.
        let stream = EventStream(
            useCases.listenToSession, session, lookedUpBy: useCases.resumeSession, on: call,
            until: presented.passEndsAt.map { $0.since(clock.now()) })
        let view = try useCases.resumeSession.view(of: try await useCases.resumeSession.resume(session.tokenDigest))
        let heartbeat = configuration.limits.eventHeartbeat
        return Answer(
            .ok, fields, body: .stream(length: nil) { try await stream.write(view, every: heartbeat, to: $0) })
    }
}
