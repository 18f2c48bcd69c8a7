import Broker
import BrokerWire
import HTTPTypes

extension BrokerAPI {
    /// Returns the session token that the request presents: that of the cookie or the bearer field, else that of a web child's
    /// cookie; nil when it has none.
    ///
    /// Neither cookie stands for the other: where a request has both, the app's counts.
    func presentedToken(_ call: Call) throws(BrokerProblem) -> PresentedToken? {
        if let token = try presentedSession(call) { return PresentedToken(secret: token, isWebCookie: false) }
        return try webCookie(call).map { PresentedToken(secret: $0, isWebCookie: true) }
    }

    /// Returns the value of a web child's cookie.
    func webCookie(_ call: Call) throws(BrokerProblem) -> Secret? { try cookie(cookies.webName, call) }

    /// Returns the session token that the request presents, from the cookie or the bearer field; nil when it has none.
    ///
    /// Two values for the cookie, or a cookie and a bearer token that differ, are 400: one of them was planted.
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

    /// Returns the live session that the request presents, without sliding its idle time.
    func session(
        _ call: Call, demanding demand: EvidenceDemand = .any
    ) async throws(BrokerProblem) -> LiveSession { try await presented(call, demanding: demand).session }

    /// The same for what is closed to children: a session that is nobody's child; throws `client_not_allowed` for another.
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

    /// The same with the end of the pass that opened it; `admits` says who may ask at all, which comes first.
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

    /// Throws what a request without a live session, or without evidence for it, is refused with; returns the session, whose the
    /// body is.
    ///
    /// The body counts for its address as well.
    @Sendable func hasSession(_ call: Call) async throws(BrokerProblem) -> HeldBodies.Owner? {
        try await look(call) { _ in }
    }

    /// The same for what is closed to children.
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
        // With a stolen cookie and no key, nobody uses up what the session's own phone may have.
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

    /// Returns the proof of presence that the request shows.
    func presence(in call: Call) -> PresentedEvidence {
        PresentedEvidence(
            proofs: presences(call),
            target: ProofTarget(method: call.request.method.rawValue, address: .own(path: String(call.path))),
            charge: charge(call).ofProofs)
    }

    /// Returns the values of the field that brings a proof of presence; looked for where a call needs it, which few do.
    func presences(_ call: Call) -> [String] { call.request.headerFields[values: .coatcheckPresence] }

    /// Returns the passes of a request, by cookie and field.
    func passes(_ call: Call) throws(BrokerProblem) -> [Secret] {
        try (cookie(cookies.passName, call).map { [$0] } ?? []) + call.fields.passes.map { Secret($0) }
    }

    /// Returns the login token that the request presents: the body's, else the cookie's.
    func loginToken(_ call: Call, body: Secret?) throws(BrokerProblem) -> Secret? {
        if let body { return body }
        return try cookie(cookies.loginName, call)
    }

    /// Runs a lookup by a secret; one that finds nothing takes from the address's bucket, so that a known token never
    /// waits (SEC-121).
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

/// A session token with how it came.
struct PresentedToken: Sendable {
    let secret: Secret
    /// Whether it came as a web child's cookie, which is for web children alone, and the only way for theirs.
    let isWebCookie: Bool

    /// Throws `session_required` where the cookie is not the session's.
    func checkCarries(_ session: LiveSession) throws(BrokerProblem) {
        guard (session.facts.child?.kind == .web) == isWebCookie else { throw BrokerProblem(.sessionRequired) }
    }
}
