import Broker

extension BrokerAPI {
    /// Returns the session token that the request presents; nil if it is missing.
    ///
    /// The session cookie or the bearer field comes first, then the cookie of a web child. The session cookie is invalid for
    /// web children, and the web cookie for all other sessions. If both are present, the session cookie is used.
    func presentedToken(_ call: Call) throws(BrokerProblem) -> PresentedToken? {
        if let token = try presentedSession(call) { return PresentedToken(secret: token, isWebCookie: false) }
        return try webCookie(call).map { PresentedToken(secret: $0, isWebCookie: true) }
    }

    /// Returns the value of a web child's cookie.
    func webCookie(_ call: Call) throws(BrokerProblem) -> Secret? { try cookie(cookies.webName, call) }

    /// Returns the session token from the session cookie or the bearer field; nil if both are missing.
    ///
    /// Throws a 400 for two different values of the cookie, or for a cookie and a bearer token that differ. In both cases an
    /// attacker may have planted one of the two values.
    func presentedSession(_ call: Call) throws(BrokerProblem) -> Secret? {
        let cookie = try sessionCookie(call)
        guard !call.fields.authorization.isEmpty else { return cookie }
        guard call.fields.authorization.count == 1, let value = call.fields.authorization.first else {
            throw BrokerProblem(.invalidRequest, errors: [FieldFault("Authorization", .duplicate)])
        }
        guard case .bearer(let bearer) = Authorization(value) else { return cookie }
        guard let cookie else { return bearer }
        guard digest(cookie.bytes()) == digest(bearer.bytes()) else {
            throw BrokerProblem(
                .invalidRequest, detail: "The cookie and the bearer token name different sessions.",
                errors: [FieldFault("Authorization", .conflict)])
        }
        return cookie
    }

    /// Returns the session cookie's value.
    func sessionCookie(_ call: Call) throws(BrokerProblem) -> Secret? { try cookie(cookies.sessionName, call) }

    /// Returns the live session of the request, and does not move its idle end.
    func session(
        _ call: Call, demanding demand: EvidenceDemand = .any
    ) async throws(BrokerProblem) -> LiveSession { try await presented(call, demanding: demand).session }

    /// Returns the live session for a route that children may not use; throws `client_not_allowed` for a child session.
    func ownSession(
        _ call: Call, demanding demand: EvidenceDemand = .any
    ) async throws(BrokerProblem) -> LiveSession {
        try await presented(call, demanding: demand, admits: Self.isNobodysChild).session
    }

    private static func isNobodysChild(_ session: LiveSession) throws(BrokerProblem) {
        guard session.family == nil else {
            throw BrokerProblem(.clientNotAllowed, detail: "A child session may not do this; its parent may.")
        }
    }

    /// Returns the live session of the request, and the end of the pass that the request showed.
    ///
    /// `admits` throws if the session may not use the route. It is called before the evidence is checked.
    func presented(
        _ call: Call, demanding demand: EvidenceDemand = .any,
        admits: (LiveSession) throws(BrokerProblem) -> Void = { _ in }
    ) async throws(BrokerProblem) -> PresentedSession {
        let token = try requiredSession(call)
        let presented = try await counting(call) { () async throws(BrokerProblem) in
            try await useCases.resumeSession.present(
                token.secret, { () throws(BrokerProblem) in try evidence(of: call) }, demand
            ) { session throws(BrokerProblem) in
                try token.checkCarries(session)
                try admits(session)
            }
        }
        call.connection?.carriesSession()
        return presented
    }

    /// Throws if the request lacks a live session, or evidence for that session.
    ///
    /// Returns the session whose limits the request's body counts towards.
    ///
    /// Without evidence, the body counts towards the session's limits for the request's address alone.
    @Sendable func hasSession(_ call: Call) async throws(BrokerProblem) -> HeldBodies.Owner? {
        try await look(call) { _ in }
    }

    /// The check of `hasSession`, for routes that children may not use.
    @Sendable func hasOwnSession(_ call: Call) async throws(BrokerProblem) -> HeldBodies.Owner? {
        try await look(call, admits: Self.isNobodysChild)
    }

    private func look(
        _ call: Call, admits: (LiveSession) throws(BrokerProblem) -> Void
    ) async throws(BrokerProblem) -> HeldBodies.Owner {
        let token = try requiredSession(call)
        let found = try await counting(call) { () async throws(BrokerProblem) in
            try await useCases.resumeSession.look(
                token.secret, { () throws(BrokerProblem) in try evidence(of: call) }
            ) { session throws(BrokerProblem) in
                try token.checkCarries(session)
                try admits(session)
            }
        }
        // A thief who has the cookie but lacks the key must not use up the limit of the session's own phone, so unproven
        // requests are counted for each address.
        let address = rules.client(of: call).address.map(configuration.translators.client)
        return HeldBodies.Owner(session: found.row, address: found.isProven ? nil : address?.limitKey)
    }

    /// Returns the session token that the request presents; throws `session_required` without one.
    func requiredSession(_ call: Call) throws(BrokerProblem) -> PresentedToken {
        guard let token = try presentedToken(call) else { throw BrokerProblem(.sessionRequired) }
        return token
    }

    /// Returns the evidence that the request shows for a session that belongs to a key.
    func evidence(of call: Call) throws(BrokerProblem) -> PresentedEvidence {
        PresentedEvidence(
            proofs: call.fields.proofs, passes: try passes(call),
            target: ProofTarget(method: call.request.method.rawValue, address: .own(path: String(call.path))),
            charge: charge(call).ofProofs)
    }

    /// Returns the presence proof of the request.
    func presence(in call: Call) -> PresentedEvidence {
        PresentedEvidence(
            proofs: presences(call),
            target: ProofTarget(method: call.request.method.rawValue, address: .own(path: String(call.path))),
            charge: charge(call).ofProofs)
    }

    /// Returns the values of the header field for presence proofs.
    ///
    /// Callers read the field on demand, because few calls need it.
    func presences(_ call: Call) -> [String] { call.request.headerFields[values: .coatcheckPresence] }

    /// Returns the passes of a request, from cookie and header field.
    func passes(_ call: Call) throws(BrokerProblem) -> [Secret] {
        try (cookie(cookies.passName, call).map { [$0] } ?? []) + call.fields.passes.map { Secret($0) }
    }

    /// Returns the login token of the request, from the body or else from the cookie.
    func loginToken(_ call: Call, body: Secret?) throws(BrokerProblem) -> Secret? {
        if let body { return body }
        return try cookie(cookies.loginName, call)
    }

    /// Runs a lookup by a secret, and charges a wrong token to the address if the lookup fails.
    ///
    /// The charge follows a failed lookup, so a caller with a known token never waits (SEC-121).
    func counting<Value>(
        _ call: Call, _ lookup: () async throws(BrokerProblem) -> Value
    ) async throws(BrokerProblem) -> Value {
        try await charge(call).forWrongTokens(lookup)
    }

    /// Returns the value of a cookie.
    func cookie(_ name: String, _ call: Call) throws(BrokerProblem) -> Secret? {
        switch CookieReader.value(of: name, in: call.fields.cookies) {
        case .absent: return nil
        case .one(let value): return Secret(value)
        case .several:
            throw BrokerProblem(
                .invalidRequest, detail: "The request has a cookie twice.",
                privateDetail: "cookie `\(name)` stands twice",
                errors: [FieldFault("Cookie", .duplicate)])
        case .halfQuoted:
            throw BrokerProblem(
                .invalidRequest, detail: "The cookie `\(name)` has a quote at one end only.",
                privateDetail: "cookie `\(name)` has a quote at one end only",
                errors: [FieldFault("Cookie", .malformed)])
        }
    }
}
