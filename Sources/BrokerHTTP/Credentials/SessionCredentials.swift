import Broker
import BrokerWire
import HTTPTypes

/// The credentials that a request presents for a session, and the session that they open.
struct SessionCredentials {
    let api: BrokerAPI
    let call: Call

    /// The rule that decides which sessions a route accepts, and throws for all others.
    struct Admission: Sendable {
        let check: @Sendable (LiveSession) throws(BrokerProblem) -> Void

        static let every = Admission { _ in }

        /// Throws `client_not_allowed` for a child session.
        static let exceptChildren = Admission { session throws(BrokerProblem) in
            guard session.family == nil else {
                throw BrokerProblem(.clientNotAllowed, detail: "A child session may not do this; its parent may.")
            }
        }
    }

    // MARK: Opening the session

    /// Returns the live session, and the end time of the request's pass; does not move the session's idle end.
    ///
    /// The `admission` is checked before the evidence.
    func open(
        demanding demand: EvidenceDemand = .any, admitting admission: Admission = .every
    ) async throws(BrokerProblem) -> PresentedSession {
        let token = try requiredToken()
        let presented = try await api.charge(call).forWrongTokens { () async throws(BrokerProblem) in
            try await api.useCases.resumeSession.present(
                token.secret, { () throws(BrokerProblem) in try evidence() }, demand
            ) { session throws(BrokerProblem) in
                try token.checkCarries(session)
                try admission.check(session)
            }
        }
        call.connection?.carriesSession()
        return presented
    }

    /// Throws if the request lacks a live session, or evidence for that session.
    ///
    /// Returns the session whose limits the request's body counts towards. If the evidence is a proof, its signature is still
    /// unchecked here. The body then counts towards the session's limits for the request's address alone.
    func check(admitting admission: Admission) async throws(BrokerProblem) -> HeldBodies.Owner {
        let token = try requiredToken()
        let found = try await api.charge(call).forWrongTokens { () async throws(BrokerProblem) in
            try await api.useCases.resumeSession.look(
                token.secret, { () throws(BrokerProblem) in try evidence() }
            ) { session throws(BrokerProblem) in
                try token.checkCarries(session)
                try admission.check(session)
            }
        }
        // A thief with the cookie, but without the key, must not use up the limit of the session's own phone. So unproven
        // requests are counted for each address.
        let address = api.rules.client(of: call).address.map(api.configuration.translators.client)
        return HeldBodies.Owner(session: found.row, address: found.isProven ? nil : address?.limitKey)
    }

    // MARK: The session token

    /// Returns the session token; nil if it is missing.
    ///
    /// The session cookie or the bearer field comes first, then the cookie of a web child. The session cookie is invalid for
    /// web children, and the web cookie for all other sessions. If both are present, the session cookie is used.
    func token() throws(BrokerProblem) -> PresentedToken? {
        if let token = try cookieOrBearer() { return PresentedToken(secret: token, isWebCookie: false) }
        return try cookie(api.cookies.webName).map { PresentedToken(secret: $0, isWebCookie: true) }
    }

    private func requiredToken() throws(BrokerProblem) -> PresentedToken {
        guard let token = try token() else { throw BrokerProblem(.sessionRequired) }
        return token
    }

    /// Returns the session token from the session cookie or the bearer field; nil if both are missing.
    ///
    /// Throws a 400 if the cookie occurs twice, or if a cookie and a bearer token differ. In both cases, an attacker may have
    /// planted one of the two values.
    func cookieOrBearer() throws(BrokerProblem) -> Secret? {
        let cookie = try cookie(api.cookies.sessionName)
        guard !call.fields.authorization.isEmpty else { return cookie }
        guard call.fields.authorization.count == 1, let value = call.fields.authorization.first else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("Authorization", .duplicate)]))
        }
        guard case .bearer(let bearer) = Authorization(value) else { return cookie }
        guard let cookie else { return bearer }
        guard api.digest(cookie.bytes()) == api.digest(bearer.bytes()) else {
            throw BrokerProblem(
                .invalidRequest, detail: "The cookie and the bearer token name different sessions.",
                with: .fields([FieldFault("Authorization", .conflict)]))
        }
        return cookie
    }

    // MARK: Cookies

    /// Returns the login token, from the body or else from the cookie.
    func loginToken(body: Secret?) throws(BrokerProblem) -> Secret? {
        if let body { return body }
        return try cookie(api.cookies.loginName)
    }

    /// Returns the value of a cookie; nil if the cookie is missing.
    func cookie(_ name: String) throws(BrokerProblem) -> Secret? {
        switch CookieReader.value(of: name, in: call.fields.cookies) {
        case .absent: return nil
        case .one(let value): return Secret(value)
        case .several:
            throw BrokerProblem(
                .invalidRequest, detail: "The request has a cookie twice.",
                privateDetail: "the request has the cookie `\(name)` twice",
                with: .fields([FieldFault("Cookie", .duplicate)]))
        case .halfQuoted:
            throw BrokerProblem(
                .invalidRequest, detail: "The cookie `\(name)` has a quote at one end only.",
                privateDetail: "cookie `\(name)` has a quote at one end only",
                with: .fields([FieldFault("Cookie", .malformed)]))
        }
    }

    // MARK: Evidence

    /// Returns the proofs and passes that the request shows as evidence for a bound session.
    func evidence() throws(BrokerProblem) -> PresentedEvidence {
        PresentedEvidence(
            proofs: call.fields.proofs, passes: try passes(), target: target, charge: api.charge(call).ofProofs)
    }

    /// Returns the passes, from cookie and header field.
    func passes() throws(BrokerProblem) -> [Secret] {
        try (cookie(api.cookies.passName).map { [$0] } ?? []) + call.fields.passes.map { Secret($0) }
    }

    /// Returns the evidence of the user's presence.
    func presence() -> PresentedEvidence {
        PresentedEvidence(proofs: presenceProofs(), target: target, charge: api.charge(call).ofProofs)
    }

    /// Returns the values of the header field for presence proofs.
    ///
    /// Callers read the field on demand, because few calls need it.
    func presenceProofs() -> [String] { call.request.headerFields[values: .coatcheckPresence] }

    private var target: ProofTarget {
        ProofTarget(method: call.request.method.rawValue, address: .own(path: String(call.path)))
    }
}

extension BrokerAPI {
    /// Returns the credentials of a request for a session.
    func credentials(_ call: Call) -> SessionCredentials { SessionCredentials(api: self, call: call) }

    /// Requires a live session and its evidence before the body of a request is read.
    @Sendable func requireSession(_ call: Call) async throws(BrokerProblem) -> HeldBodies.Owner? {
        try await credentials(call).check(admitting: .every)
    }

    /// Requires a live top-level session and its evidence, before the body of a request is read.
    @Sendable func requireNoChild(_ call: Call) async throws(BrokerProblem) -> HeldBodies.Owner? {
        try await credentials(call).check(admitting: .exceptChildren)
    }
}
