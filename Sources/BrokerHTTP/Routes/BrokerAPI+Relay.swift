import Broker
import BrokerRelay
import BrokerWire
import HTTPTypes
import NIOCore

extension BrokerAPI {
    /// `ANY /v1/relay/{upstream}/{path…}`: calls an upstream with the session's access token; streams both ways.
    @Sendable func relayCall(_ call: Call) async throws(BrokerProblem) -> Answer {
        guard let relay, let target = RelayTarget(call.request.path ?? "") else {
            throw BrokerProblem(.upstreamNotFound)
        }
        let presented = try await presented(call)
        let session = presented.session
        if let family = session.family, !family.policy.upstreams.contains(where: { $0.text == target.upstream }) {
            throw BrokerProblem(.upstreamNotAllowed, detail: "Children of this kind may not call this upstream.")
        }
        useCases.resumeSession.slide(session)
        let held = call.fields.hasBody ? try load.bodies.take(call.fields.contentLength, for: session.row) : nil
        defer { held.map(load.bodies.giveBack) }
        let ending = presented.passEndsAt.map { RelayedEnding(passEndsAt: $0, clock) }
        let body =
            call.fields.hasBody ? RelayedBody(call, limits: configuration.limits, within: ending?.longest) : nil
        let request = RelayRequest(
            method: call.request.method, target: target, headers: call.request.headerFields,
            body: body.map { .stream(UpstreamRequest.Stream($0), length: call.fields.contentLength) } ?? .none,
            requestID: call.requestID, eventLoop: call.eventLoop)
        let answer = try await whileWanted(call) { () async throws(BrokerProblem) in
            try await relayed(request, through: relay, session, call)
        }
        return self.answer(answer, ending, call)
    }

    private func relayed(
        _ request: RelayRequest, through relay: Relay, _ session: LiveSession, _ call: Call
    ) async throws(BrokerProblem) -> RelayResponse {
        guard session.hasTokens else {
            throw BrokerProblem(.upstreamNotAllowed, detail: "This session has no access token.")
        }
        var given: AccessToken?
        return try await relay.call(
            request, session: session, signIns: useCases.signInCheck,
            presence: { session throws(BrokerProblem) in
                try await useCases.presenceCheck.judge(presence(in: call), of: session)
            }
        ) {
            session, target, force throws(BrokerProblem) in
            let access =
                if let target {
                    try await targetToken(target, of: session, insteadOf: force ? given : nil)
                } else if force, let refused = given {
                    try await useCases.refreshTokens.accessToken(for: session, insteadOf: refused)
                } else { try await useCases.refreshTokens.accessToken(for: session) }
            given = access
            return access
        }
    }

    /// Returns an upstream's own token; a session that has nothing to ask with may not call it, and a new sign-in may.
    private func targetToken(
        _ target: TokenTarget, of session: LiveSession, insteadOf refused: AccessToken?
    ) async throws(BrokerProblem) -> AccessToken {
        do throws(BrokerProblem) {
            return try await useCases.audienceTokens.accessToken(for: session, at: target, insteadOf: refused)
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

    private func answer(_ answer: RelayResponse, _ ending: RelayedEnding?, _ call: Call) -> Answer {
        // Whatever the upstream said about these, the page is served from our origin (SEC-108).
        let policy =
            mediaType(answer).isASCIIEqual(to: "application/pdf")
            ? SecurityFields.relayedPDFSecurity : SecurityFields.relayedContentSecurity
        let ours = [policy, SecurityFields.contentType, SecurityFields.referrer]
        var fields = ours
        fields.reserveCapacity(answer.headers.count + 8)
        // The upstream's date is the upstream's; the answer is ours (RFC 9110 section 6.6.1).
        for field in answer.headers where field.name != .date && !ours.contains(where: { $0.name == field.name }) {
            fields.append(field)
        }
        fields.append(HTTPField(name: .requestID, value: call.requestID))
        if let length = answer.contentLength {
            fields.append(HTTPField(name: .contentLength, value: String(length)))
        }
        return Answer(answer.status, consume fields, body: body(answer, ending, call))
    }

    /// The answer's media type, without its parameters; empty where it has none, or several.
    private func mediaType(_ answer: RelayResponse) -> Substring {
        var found: String?
        for field in answer.headers where field.name == .contentType {
            // Of two, a browser takes which it likes.
            guard found == nil else { return "" }
            found = field.value
        }
        return Substring((found ?? "").utf8.prefix { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: " ") })
    }

    private func body(_ answer: RelayResponse, _ ending: RelayedEnding?, _ call: Call) -> Answer.Body {
        switch answer.body {
        case .buffered(let buffer): return .whole(buffer)
        case .none:
            // HEAD: a length that is not known is not said.
            guard call.isHead else { return .none }
            return .stream(length: nil) { try await $0.finish(nil) }
        case .stream(let stream):
            let connection = call.connection
            let isEventStream =
                ending != nil && answer.contentLength == nil
                && mediaType(answer).isASCIIEqual(to: "text/event-stream")
            return .stream(length: answer.contentLength) { writer in
                connection?.beginCancellable()
                defer { connection?.endCancellable() }
                guard let ending else { return try await Self.write(stream, to: writer) }
                try await ending.write(stream, isEventStream: isEventStream, to: writer)
            }
        }
    }

    /// An upstream that breaks off throws here, and the connection is cut: a body that is not whole must not look so.
    @concurrent private static func write(
        _ stream: RelayBody, to writer: any BodyWriter
    ) async throws {
        for try await chunk in stream { try await writer.write(chunk) }
        try await writer.finish(nil)
    }
}
