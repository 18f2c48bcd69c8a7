package import Broker
import BrokerWire
import HTTPTypes
import NIOCore

/// Converts every refusal and failure into an answer; no other type does (SEC-107).
struct ProblemResponder: Sendable {
    /// The properties of the request that affect a problem's answer.
    struct Circumstances {
        /// Whether the request has the broker's session cookie.
        var hasSessionCookie = false
        /// Whether the session token came in the cookie of a web child.
        var hasWebCookie = false
        /// Whether a refusal is answered with a page for a person.
        var isPage = false
        /// Whether the request has the broker's cookie of a pass.
        var hasPass = false
        /// Whether the route's errors have OAuth's form.
        var isOAuth = false
        /// Whether the caller used HTTP Basic.
        var usedBasic = false
        /// Whether the path belongs to the relay, whose answers name the broker or the upstream as their source.
        var isRelay = false
        /// The methods of the path, for a 405.
        var allow: String?
    }

    let cookies: CookieWriter
    let now: @Sendable () -> WallTime
    /// The nonce for the next proof; nil on the management listener, which has no sessions.
    var nonce: (@Sendable () -> String)?

    func answer(_ problem: BrokerProblem, requestID: String, _ circumstances: Circumstances) -> Answer {
        var fields = circumstances.isPage ? HandoverPage.fields(requestID) : Answers.fields(requestID)
        var status = problem.code.status
        let body: [UInt8]
        if circumstances.isPage {
            body = HandoverPage.refusal(problem)
            fields.append(HandoverPage.html)
        } else if circumstances.isOAuth {
            (status, body) = OAuthErrorBody.render(problem)
            fields.append(ConstantFields.json)
        } else {
            body = ProblemBody.bytes(problem, requestID: requestID)
            fields.append(ConstantFields.problem)
        }
        fields += reasons(of: problem, status: status, usedBasic: circumstances.usedBasic)
        // Clear the cookie only if its session is known to have ended (guarantee 3).
        if problem.code == .sessionEnded, circumstances.hasSessionCookie {
            fields += cookies.cleared(circumstances.hasPass)
        } else if problem.code == .sessionEnded, circumstances.hasWebCookie {
            fields.append(cookies.clearedWeb)
        }
        if case .login(let login) = problem.payload, login.transport == .cookie {
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

    /// Returns the fields that explain a refusal: its challenge, its code and reason, and the nonce for the next proof.
    ///
    /// A gateway that asks with a subrequest, such as nginx's `auth_request`, drops the body of the answer. So the code and
    /// the reason are also in fields.
    private func reasons(of problem: BrokerProblem, status: Int, usedBasic: Bool) -> [HTTPField] {
        let code = HTTPField(name: .coatcheckCode, value: problem.code.rawValue)
        var fields: [HTTPField] = []
        switch problem.payload {
        case .proof(let refusal) where problem.code != .rateLimited:
            if status == 401 { fields.append(Self.challenge(refusal)) }
            fields.append(code)
            addNonce(to: &fields)
        case .presence(let refusal) where problem.code != .rateLimited:
            fields += [Self.challenge(problem.code, refusal), code]
            // The app cannot ask for the reason in a second request, because the proof was for this request only.
            if let reason = refusal.reason { fields.append(HTTPField(name: .coatcheckReason, value: reason)) }
            addNonce(to: &fields)
        case .stepUp(let wanted): fields += [StepUpBody.challenge(wanted), code]
        default:
            if status == 401 { fields.append(Self.challenge(problem.code, usedBasic: usedBasic)) }
            if problem.code == .sessionEnded, let reason = problem.reason {
                fields.append(HTTPField(name: .coatcheckReason, value: reason.rawValue))
            }
        }
        return fields
    }

    /// Adds the nonce for the next proof.
    func addNonce(to fields: inout [HTTPField]) {
        if let nonce { fields.append(HTTPField(name: .dpopNonce, value: nonce())) }
    }

    /// The challenge for a missing or wrong credential.
    private static func challenge(_ code: ProblemCode, usedBasic: Bool) -> HTTPField {
        guard code == .backendUnauthorized else { return ConstantFields.bearerChallenge }
        return usedBasic ? ConstantFields.basicChallenge : ConstantFields.backendChallenge
    }

    /// The challenge that requests a presence proof.
    ///
    /// The broker defines the value of `error`, so that a client of RFC 9449 or 9470 cannot confuse this value with an error
    /// of those RFCs.
    private static func challenge(_ code: ProblemCode, _ refusal: PresenceRefusal) -> HTTPField {
        let error = #"error="\#(code.rawValue)""#
        return HTTPField(
            name: .wwwAuthenticate, value: refusal.isBound ? #"DPoP \#(error), algs="ES256""# : "Bearer " + error)
    }

    /// The challenge of RFC 9449 section 7.1.
    private static func challenge(_ refusal: ProofRefusal) -> HTTPField {
        HTTPField(name: .wwwAuthenticate, value: #"DPoP error="\#(refusal.challengeError)", algs="ES256""#)
    }
}

extension ProblemCode {
    /// The HTTP status of the problem.
    package var status: Int {
        switch self {
        case .invalidRequest, .invalidCallback, .stateMismatch, .issuerMismatch, .codeRejected, .verifierMismatch,
            .registrationRejected:
            400
        case .sessionRequired, .sessionEnded, .backendUnauthorized, .proofRequired, .useDPoPNonce, .proofInvalid,
            .stepUpRequired, .presenceRequired, .presenceInvalid:
            401
        case .loginNotYours, .accessDenied, .clientNotAllowed, .backendNotAllowed, .emailDomainDenied, .crossOrigin,
            .upstreamNotAllowed, .stepUpFailed:
            403
        case .notFound, .providerNotFound, .upstreamNotFound: 404
        case .methodNotAllowed: 405
        case .requestTimeout: 408
        case .codeAlreadyUsed, .userAlreadyExists, .loginRequired, .interactionRequired, .notRefreshable,
            .tooManySessions, .otherSession, .subjectMismatch:
            409
        case .loginExpired, .stateKeyExpired, .handoffExpired, .handoverExpired: 410
        case .tooLarge: 413
        case .unsupportedMediaType: 415
        case .wrongHost: 421
        case .rateLimited: 429
        case .headersTooLarge: 431
        case .internalError: 500
        case .providerError, .identityRejected, .upstreamError: 502
        case .providerUnavailable, .storeUnavailable, .upstreamBusy, .upstreamNonce, .shuttingDown: 503
        case .upstreamTimeout: 504
        }
    }

    /// A short title of the problem, which is the same for every occurrence.
    package var title: String { words.title }

    /// The text for the caller if the problem has no detail of its own.
    package var standardDetail: String { words.detail }

    private var words: (title: String, detail: String) {
        switch self {
        case .invalidRequest: ("Invalid request", "The request is not as the contract says.")
        case .invalidCallback: ("Invalid callback", "The callback is not one this login can be finished with.")
        case .stateMismatch: ("Unknown login", "No login waits for this callback.")
        case .issuerMismatch: ("Wrong issuer", "The callback names another issuer than the login's provider.")
        case .codeRejected: ("Code rejected", "The provider did not accept the code. Start a new login.")
        case .verifierMismatch: ("Wrong verifier", "The code verifier is not the one of the code challenge.")
        case .registrationRejected: ("Registration rejected", "The provider did not accept these attributes.")
        case .sessionRequired: ("Session required", "The request has no session. Sign in first.")
        case .sessionEnded: ("Session ended", "The session has ended. Sign in again.")
        case .backendUnauthorized: ("Unknown backend", "The caller did not prove which backend it is.")
        case .proofRequired: ("Proof required", "The session belongs to a key: show a proof or a pass.")
        case .useDPoPNonce: ("Use the nonce", "Make the proof with the nonce of this answer.")
        case .proofInvalid: ("Invalid proof", "The proof or pass is not accepted.")
        case .loginNotYours: ("Not your login", "The login was started by somebody else. Start a new one.")
        case .accessDenied: ("Access denied", "The user or the provider refused the sign-in.")
        case .clientNotAllowed: ("Client not allowed", "This client may not sign in this way.")
        case .backendNotAllowed: ("Backend not allowed", "This backend may not ask this, or not about this session.")
        case .emailDomainDenied: ("Email domain denied", "The provider does not take users of this email domain.")
        case .crossOrigin: ("Cross-origin request", "The request came from a web origin that is not listed.")
        case .upstreamNotAllowed: ("Upstream not allowed", "The session may not call this upstream in this way.")
        case .notFound: ("Not found", "There is nothing here.")
        case .providerNotFound: ("Unknown provider", "No provider of this name is configured.")
        case .upstreamNotFound: ("Unknown upstream", "No upstream of this name is configured.")
        case .methodNotAllowed: ("Method not allowed", "This path does not take this method.")
        case .requestTimeout: ("Request timeout", "The request's body came too slowly.")
        case .codeAlreadyUsed: ("Code already used", "The code was used before. Start a new login.")
        case .userAlreadyExists: ("User already exists", "A user with this identity exists. Sign in instead.")
        case .loginRequired: ("Login required", "Finish the login that this answer names.")
        case .interactionRequired: ("Interaction required", "The provider has to ask the user. Start a login that may.")
        case .notRefreshable: ("Not refreshable", "The session's tokens cannot be refreshed.")
        case .tooManySessions: ("Too many sessions", "The user has as many sessions as the client may have.")
        case .stepUpRequired:
            ("Step-up required", "This needs a stronger or more recent sign-in. The session stays as it is.")
        case .presenceRequired:
            ("Presence required", "This needs a proof by the key that the device uses only with its user.")
        case .presenceInvalid: ("Invalid proof of presence", "The proof of the user's presence is not accepted.")
        case .stepUpFailed: ("Step-up failed", "The sign-in is not what was asked for. The session stays as it was.")
        case .subjectMismatch:
            ("Another user", "Somebody else signed in than the session's user. The session stays as it was.")
        case .otherSession: ("Other session", "The browser holds a session of another user.")
        case .loginExpired: ("Login expired", "The login took too long. Start a new one.")
        case .stateKeyExpired: ("State key expired", "The registration can no longer be finished. Sign in again.")
        case .handoffExpired: ("Handoff expired", "The handoff can no longer be redeemed. Start a new login.")
        case .handoverExpired: ("Hand-over expired", "The ticket can no longer be used. Ask the app for a new one.")
        case .tooLarge: ("Too large", "The request's body is larger than this path takes.")
        case .unsupportedMediaType: ("Unsupported media type", "The request's content type is not the path's.")
        case .wrongHost: ("Wrong host", "This service is not known by the name in the request.")
        case .rateLimited: ("Rate limited", "Too many requests. Try again later.")
        case .headersTooLarge: ("Headers too large", "The request line or the header fields are too large.")
        case .internalError: ("Internal error", "Something went wrong here.")
        case .providerError: ("Provider error", "The provider did not answer as its contract says.")
        case .identityRejected: ("Identity rejected", "The identity that the provider returned could not be verified.")
        case .upstreamError: ("Upstream error", "The upstream could not be reached or did not answer properly.")
        case .upstreamTimeout: ("Upstream timeout", "The upstream did not answer in time.")
        case .providerUnavailable: ("Provider unavailable", "The provider cannot be reached. Try again later.")
        case .storeUnavailable: ("Store unavailable", "Sessions cannot be read or written. Try again later.")
        case .upstreamBusy: ("Upstream busy", "Too many calls to this upstream are under way. Try again later.")
        case .upstreamNonce:
            (
                "Upstream wants a nonce",
                "The upstream wants another proof, and the request's body is gone. Send it again."
            )
        case .shuttingDown: ("Shutting down", "This instance is shutting down. Try again.")
        }
    }
}

/// Answers input that never becomes a request, such as an oversized header or ambiguous framing.
struct FramingProblems: Sendable {
    private let log: RequestLog
    private let hasStrictTransport: Bool

    /// Creates the answers; `log` gets a record for each, with the method and route `-`.
    init(log: RequestLog, hasStrictTransport: Bool) {
        self.log = log
        self.hasStrictTransport = hasStrictTransport
    }

    func answer(_ refusal: FramingRefusal, _ connection: ClientConnection) -> Answer {
        let problem =
            switch refusal {
            case .malformed: BrokerProblem(.invalidRequest, detail: "The request is not well-formed HTTP/1.1.")
            case .tooLarge: BrokerProblem(.headersTooLarge)
            case .overLimit: BrokerProblem(.rateLimited, retryAfter: .seconds(5))
            }
        let id = RequestID.fresh()
        var fields = Answers.fields(id)
        if hasStrictTransport { fields.append(SecurityFields.strictTransport) }
        fields.append(ConstantFields.problem)
        if problem.code == .rateLimited { fields.append(HTTPField(name: .retryAfter, value: "6")) }
        log.record(
            RequestRecord(
                method: "-", route: "-", status: problem.code.status, duration: .zero, requestID: id,
                client: connection.peerText, session: nil, failed: nil, traceID: nil, untrustedProxy: nil,
                userAgent: nil, code: problem.code, privateDetail: nil))
        return Answer(
            .init(code: problem.code.status), fields,
            body: .whole(ByteBuffer(bytes: ProblemBody.bytes(problem, requestID: id))))
    }
}
