import Broker
import BrokerRelay
import BrokerWire
import HTTPTypes
import NIOCore

extension BrokerAPI {
    /// `ANY /v1/relay/{upstream}/{path…}`: calls an upstream with the session's access token, and streams in both
    /// directions.
    @Sendable func relayCall(_ call: Call) async throws(BrokerProblem) -> Answer {
        guard let relay, let target = RelayTarget(call.request.path ?? "") else {
            throw BrokerProblem(.upstreamNotFound)
        }
        let presented = try await credentials(call).open()
        let session = presented.session
        if let family = session.family, !family.policy.upstreams.contains(where: { $0.text == target.upstream }) {
            throw BrokerProblem(.upstreamNotAllowed, detail: "Children of this kind may not call this upstream.")
        }
        useCases.resumeSession.slide(session)
        let begun = NIODeadline.now()
        let held = call.fields.hasBody ? try load.bodies.take(call.fields.contentLength, for: session.row) : nil
        defer { held.map(load.bodies.giveBack) }
        let ending = presented.passEndsAt.map { RelayedEnding(passEndsAt: $0, clock) }
        let body =
            call.fields.hasBody
            ? RelayedBody(call, limits: configuration.limits, within: ending?.longest, use: longUpload(call, session))
            : nil
        let request = RelayRequest(
            method: call.request.method, target: target, headers: call.request.headerFields,
            body: body.map { .stream(UpstreamRequest.Stream($0), length: call.fields.contentLength) } ?? .none,
            requestID: call.requestID, eventLoop: call.eventLoop)
        let answer = try await whileWanted(call) { () async throws(BrokerProblem) in
            try await relayed(request, through: relay, session, call)
        }
        if case .stream(let stream) = answer.body {
            let isEventStream =
                answer.contentLength == nil && mediaType(answer).isASCIIEqual(to: "text/event-stream")
            let write = try await written(stream, isEventStream: isEventStream, of: session, ending, call)
            var streamed = self.answer(answer, .stream(length: answer.contentLength, write), call)
            if isEventStream, answer.headers[.accelBuffering] == nil {
                streamed.fields.append(ConstantFields.unbuffered)
            }
            return streamed
        }
        // When a session ends, its relayed answers may continue for `relayedGrace`. If this call took at least as long, its
        // session may have ended that long ago, so check the session.
        if NIODeadline.now() - begun >= TimeAmount(configuration.limits.relayedGrace) { try await checkLives(session) }
        return self.answer(answer, wholeBody(answer, call), call)
    }

    /// Returns the `SessionUse` that is notified of each piece of a large upload; nil for small bodies (decision 76).
    private func longUpload(_ call: Call, _ session: LiveSession) -> SessionUse? {
        guard (call.fields.contentLength ?? .max) > Relay.heldBody else { return nil }
        return SessionUse(of: session, useCases.resumeSession)
    }

    /// Returns the function that writes the body of a streamed answer.
    ///
    /// The answer ends when the session ends or when the pass in the request ends, as `RelayedAnswer` describes.
    private func written(
        _ stream: RelayBody, isEventStream: Bool, of session: LiveSession, _ ending: RelayedEnding?, _ call: Call
    ) async throws(BrokerProblem) -> @concurrent @Sendable (any BodyWriter) async throws -> Void {
        // Add the answer as a follower of the session (`SessionNotices`) before the session is looked up. In the other
        // order, an ending between the two steps would be missed.
        let relayed = RelayedAnswer(
            of: session, in: useCases.listenToSession, isEventStream: isEventStream,
            grace: configuration.limits.relayedGrace, use: SessionUse(of: session, useCases.resumeSession),
            on: call.eventLoop, close: { stream.close() })
        try await checkLives(session)
        if let ending { relayed.end(in: ending.rest(isEventStream: isEventStream)) }
        let connection = call.connection
        return { writer in
            connection?.beginCancellable()
            defer { connection?.endCancellable() }
            try await relayed.write(stream, to: writer)
        }
    }

    /// Throws `session_ended` if the session has ended.
    ///
    /// If the session cannot be read, it counts as alive (guarantee 3).
    private func checkLives(_ session: LiveSession) async throws(BrokerProblem) {
        do throws(BrokerProblem) { try await useCases.resumeSession.checkLives(session.tokenDigest) } catch {
            guard error.code == .sessionEnded || error.code == .sessionRequired else { return }
            throw error
        }
    }

    private func relayed(
        _ request: RelayRequest, through relay: Relay, _ session: LiveSession, _ call: Call
    ) async throws(BrokerProblem) -> RelayResponse {
        guard session.hasTokens else {
            throw BrokerProblem(.upstreamNotAllowed, detail: "This session has no access token.")
        }
        let upstream = request.target.upstream
        var given: AccessToken?
        return try await relay.call(
            request, session: session, signIns: useCases.signInCheck,
            presence: { session throws(BrokerProblem) in
                try await useCases.presenceCheck.judge(credentials(call).presence(), of: session)
            }
        ) {
            session, target, force throws(BrokerProblem) in
            let access =
                if let target {
                    try await targetToken(target, of: session, insteadOf: force ? given : nil, by: upstream)
                } else if force, let refused = given {
                    try await useCases.refreshTokens.accessToken(for: session, insteadOf: refused, at: upstream)
                } else { try await useCases.refreshTokens.accessToken(for: session) }
            given = access
            return access
        }
    }

    /// Returns the access token for an upstream's own API.
    ///
    /// Throws `upstream_not_allowed` if the session cannot get such a token. Only a new sign-in can change that. But if the
    /// upstream has refused an earlier token (`refused`), and the session cannot get another one, throws `not_refreshable`.
    private func targetToken(
        _ target: TokenTarget, of session: LiveSession, insteadOf refused: AccessToken?, by upstream: String
    ) async throws(BrokerProblem) -> AccessToken {
        do throws(BrokerProblem) {
            return try await useCases.fetchTargetToken.accessToken(
                for: session, at: target, insteadOf: refused, by: upstream)
        } catch {
            guard error.code == .notRefreshable, refused == nil else { throw error }
            throw BrokerProblem(
                .upstreamNotAllowed, detail: "This session can get no access token for this upstream.",
                privateDetail: error.privateDetail)
        }
    }

    private func whileWanted<Value>(
        _ call: Call, _ work: () async throws(BrokerProblem) -> Value
    ) async throws(BrokerProblem) -> Value {
        guard let connection = call.connection else { return try await work() }
        return try await connection.cancellingWhenGone(work)
    }

    private func answer(_ answer: RelayResponse, _ body: Answer.Body, _ call: Call) -> Answer {
        // The broker's values replace the upstream's, because the page comes from the broker's origin (SEC-108).
        let policy =
            mediaType(answer).isASCIIEqual(to: "application/pdf")
            ? SecurityFields.relayedPDFSecurity : SecurityFields.relayedContentSecurity
        let ours = [policy, SecurityFields.contentType, SecurityFields.referrer]
        var fields = ours
        fields.reserveCapacity(answer.headers.count + 8)
        // Drop the upstream's `Date`, because the broker writes its own for this answer (RFC 9110 section 6.6.1).
        for field in answer.headers where field.name != .date && !ours.contains(where: { $0.name == field.name }) {
            fields.append(field)
        }
        fields.append(HTTPField(name: .requestID, value: call.requestID))
        if let length = answer.contentLength {
            fields.append(HTTPField(name: .contentLength, value: String(length)))
        }
        return Answer(answer.status, consume fields, body: body)
    }

    /// The answer's media type without its parameters; empty unless the answer has exactly one `Content-Type`.
    private func mediaType(_ answer: RelayResponse) -> Substring {
        var found: String?
        for field in answer.headers where field.name == .contentType {
            // Of two `Content-Type` fields, browsers may use either one. So two fields count as an unknown type.
            guard found == nil else { return "" }
            found = field.value
        }
        return Substring((found ?? "").utf8.prefix { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: " ") })
    }

    /// Returns the body of an answer that the relay has read to its end.
    private func wholeBody(_ answer: RelayResponse, _ call: Call) -> Answer.Body {
        // If the answer to HEAD has no known length, `.none` would add `Content-Length: 0`. A stream without a length adds none.
        guard case .buffered(let buffer) = answer.body else {
            return call.isHead ? .stream(length: nil) { try await $0.finish(nil) } : .none
        }
        return .whole(buffer)
    }
}
