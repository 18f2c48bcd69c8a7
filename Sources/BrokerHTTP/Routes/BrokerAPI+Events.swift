import Broker
import BrokerWire
import HTTPTypes
import NIOCore

extension BrokerAPI {
    /// `POST /v1/session/refresh`: refreshes the provider's tokens now.
    @Sendable func refreshSession(_ call: Call) async throws(BrokerProblem) -> Answer {
        let session = try await session(call)
        return Answers.json(.ok, SessionBody.bytes(try await useCases.refreshTokens.refreshNow(session)), call)
    }

    /// `GET /v1/session/events`: what happens to the session, as server-sent events.
    @Sendable func sessionEvents(_ call: Call) async throws(BrokerProblem) -> Answer {
        let presented = try await presented(call)
        let session = presented.session
        var fields = Answers.fields(call.requestID)
        fields.append(ConstantFields.eventStream)
        guard !call.isHead else { return Answer(.ok, fields) }
        // Subscribed before the second look, so that an ending between the two is not missed.
        let stream = EventStream(
            useCases.listenToSession, session, lookedUpBy: useCases.resumeSession, on: call,
            until: presented.passEndsAt.map { $0.since(clock.now()) })
        let view = try await useCases.resumeSession.resume(session.token).view
        let heartbeat = configuration.limits.eventHeartbeat
        return Answer(
            .ok, fields, body: .stream(length: nil) { try await stream.write(view, every: heartbeat, to: $0) })
    }
}
