import Broker
import BrokerWire
import HTTPTypes
import NIOCore

/// Turns every refusal and failure into its answer: the one place that does (SEC-107).
struct ProblemResponder: Sendable {
    /// What a problem's answer depends on besides the problem.
    struct Circumstances {
        /// Whether the request brought our session cookie.
        var hasSessionCookie = false
        /// Whether the request brought our cookie of a pass.
        var hasPass = false
        /// Whether the route's errors are OAuth's.
        var isOAuth = false
        /// Whether the caller tried HTTP Basic.
        var usedBasic = false
        /// Whether the path is the relay's, whose answers say whose they are.
        var isRelay = false
        /// The path's methods, for 405.
        var allow: String?
    }

    let cookies: CookieWriter
    let now: @Sendable () -> WallTime
    /// The nonce for the next proof; nil where there are no sessions (the management listener).
    var nonce: (@Sendable () -> String)?

    func answer(_ problem: BrokerProblem, requestID: String, _ circumstances: Circumstances) -> Answer {
        var fields = Answers.fields(requestID)
        var status = problem.code.status
        let body: [UInt8]
        if circumstances.isOAuth {
            (status, body) = OAuthErrorBody.render(problem)
            fields.append(ConstantFields.json)
        } else {
            body = ProblemBody.bytes(problem, requestID: requestID)
            fields.append(ConstantFields.problem)
        }
        if let refusal = problem.proof, problem.code != .rateLimited {
            // In the code's own field, too: gateways that ask by a subrequest lose the body.
            if status == 401 { fields.append(Self.challenge(refusal)) }
            fields.append(HTTPField(name: .coatcheckCode, value: problem.code.rawValue))
            addNonce(to: &fields)
        } else if status == 401 {
            let isBackend = problem.code == .backendUnauthorized
            fields.append(
                !isBackend
                    ? ConstantFields.bearerChallenge
                    : circumstances.usedBasic ? ConstantFields.basicChallenge : ConstantFields.backendChallenge)
        }
        // For proxies that ask by a subrequest and lose its body (nginx's auth_request).
        if problem.code == .sessionEnded, let reason = problem.reason {
            fields.append(HTTPField(name: .coatcheckReason, value: reason.rawValue))
        }
        // The cookie goes when its session is known to have ended, and for no other reason (guarantee 3).
        if problem.code == .sessionEnded, circumstances.hasSessionCookie {
            fields += cookies.cleared(circumstances.hasPass)
        }
        if let login = problem.login, login.transport == .cookie {
            fields.append(cookies.login(login.loginToken, lifetime: login.expiresAt.since(now())))
        }
        if status == 429 || status == 503 {
            let wait = problem.retryAfter.map { max($0.wholeMilliseconds, 0) / 1000 + 1 } ?? 5
            fields.append(HTTPField(name: .retryAfter, value: String(min(wait, 3600))))
        }
        if circumstances.isRelay { fields.append(ConstantFields.sourceBroker) }
        if status == 405, let allow = circumstances.allow { fields.append(HTTPField(name: .allow, value: allow)) }
        return Answer(.init(code: status), fields, body: .whole(ByteBuffer(bytes: body)))
    }

    /// Adds the nonce for the next proof.
    func addNonce(to fields: inout [HTTPField]) {
        if let nonce { fields.append(HTTPField(name: .dpopNonce, value: nonce())) }
    }

    /// The challenge of RFC 9449 section 7.1.
    private static func challenge(_ refusal: ProofRefusal) -> HTTPField {
        HTTPField(name: .wwwAuthenticate, value: #"DPoP error="\#(refusal.challengeError)", algs="ES256""#)
    }
}
