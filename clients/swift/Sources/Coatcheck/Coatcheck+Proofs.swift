import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The evidence that the requests of a bound session send in addition to its secret.
///
/// `docs/apps/bound-sessions.md` has the rules.
extension Coatcheck {
    /// The reason of a session's end that only this device knows: the session's key is lost.
    static let keyLost = "key_lost"

    /// Returns a bound session's pass for the app's own requests, or nil if the session needs no pass.
    ///
    /// Renews the pass if it is due.
    ///
    /// The app sends the pass as `Coatcheck-Pass`, or as the cookie that ``CookieStorage`` keeps.
    public func pass() async throws -> String? {
        let credentials = try kept()
        guard credentials.session != nil else { return nil }
        let known = credentials.lastSession
        if let known, known.binding?.evidence != "pass" { return nil }
        do { return try await pass(of: credentials) } catch CoatcheckError.keyLost {
            try forget(credentials.session)
            throw CoatcheckError.keyLost
        }
    }

    /// Makes the request for a call, with the evidence that it needs.
    func prepared(_ call: Call, _ mending: Mending) async throws -> URLRequest {
        let credentials = try call.credentials ?? kept()
        var request = try request(call, of: credentials)
        if let presence = mending.presence { request.setValue(presence, forHTTPHeaderField: "Coatcheck-Presence") }
        do { try await show(call, of: credentials, mending, in: &request) } catch CoatcheckError.keyLost {
            // The broker is not informed, because another device may still have the key and use the session. An example is a
            // phone whose backup was restored here.
            try forget(credentials.session)
            throw CoatcheckError.keyLost
        }
        return request
    }

    /// Keeps the newest nonce from the broker.
    func keepNonce(_ fields: [String: String]) {
        if let value = fields["dpop-nonce"], !value.isEmpty { (nonce, nonceReceived) = (value, now()) }
    }

    /// Decides whether a refused call is sent again at once, and deletes a stored pass that the broker refused.
    ///
    /// Throws `keyLost` if the session belongs to another key than this device's. Throws `presenceKeyLost` if the session
    /// has another presence key than this device's.
    func mends(_ problem: Problem, of call: Call, _ mending: inout Mending, sent request: URLRequest) throws -> Bool {
        guard problem.status == 401, key != nil else { return false }
        if problem.code == .proofInvalid, problem.reason == "key" {
            try forget(asSentIn: request)
            throw CoatcheckError.keyLost
        }
        if problem.code == .presenceInvalid, problem.reason == "key" { throw CoatcheckError.presenceKeyLost }
        if canAsk(for: call), mending.asks(problem, for: call) { return true }
        guard mending.mends(problem, of: call) else { return false }
        if problem.code == .proofRequired || problem.reason == "pass" { try forgetPass(asSentIn: request) }
        return true
    }

    // MARK: - Evidence

    private func show(
        _ call: Call, of credentials: Credentials, _ mending: Mending, in request: inout URLRequest
    ) async throws {
        let nonce = call.asksForNonce && !mending.hasNonce ? nil : self.nonce
        switch call.evidence {
        case .none: return
        case .signIn: try await proveSignIn(nonce, in: &request)
        case .session:
            guard mending.isBound || credentials.lastSession?.binding != nil else {
                // The session may be bound although this is unknown here, because some storages do not keep the session's
                // details.
                if let pass = credentials.pass { set(pass.value, of: credentials, in: &request) }
                return
            }
            let proves = provesEach || credentials.lastSession?.binding?.evidence == "proof"
            if !proves, let pass = try await pass(of: credentials) {
                set(pass, of: credentials, in: &request)
            } else {
                try await prove(credentials, nonce, in: &request)
            }
        case .proof:
            let isUnbound = credentials.lastSession.map { $0.binding == nil } ?? false
            if mending.isBound || !isUnbound { try await prove(credentials, nonce, in: &request) }
        }
    }

    private func set(_ pass: String, of credentials: Credentials, in request: inout URLRequest) {
        guard credentials.transport == .cookie else {
            return request.setValue(pass, forHTTPHeaderField: "Coatcheck-Pass")
        }
        let cookies = request.value(forHTTPHeaderField: "Cookie").map { "\($0); " } ?? ""
        request.setValue("\(cookies)\(CookieNames(broker).pass)=\(pass)", forHTTPHeaderField: "Cookie")
    }

    /// Signs a request of a session.
    private func prove(_ credentials: Credentials, _ nonce: String?, in request: inout URLRequest) async throws {
        guard let key, let session = credentials.session else { return }
        guard let known = try await key.publicKey() else { throw CoatcheckError.keyLost }
        if let jkt = credentials.lastSession?.binding?.jkt, jkt != known.thumbprint { throw CoatcheckError.keyLost }
        try await sign(&request, by: key, known, nonce, session: session)
    }

    /// Signs a request that starts a login or makes a session.
    ///
    /// Makes a key if necessary.
    private func proveSignIn(_ nonce: String?, in request: inout URLRequest) async throws {
        guard let key else { return }
        guard let known = try await key.publicKey() else {
            return try await sign(&request, by: key, try await made(key, insteadOf: nil), nonce, session: nil)
        }
        do { try await sign(&request, by: key, known, nonce, session: nil) } catch CoatcheckError.keyLost {
            try await sign(&request, by: key, try await made(key, insteadOf: known), nonce, session: nil)
        }
    }

    private func sign(
        _ request: inout URLRequest, by key: any ProofKey, _ known: ProofPublicKey, _ nonce: String?, session: String?
    ) async throws {
        let proof = Proof(
            method: request.httpMethod ?? "GET", address: request.provedAddress, session: session, nonce: nonce,
            time: now())
        request.setValue(try await proof.token(by: key, known), forHTTPHeaderField: "DPoP")
    }

    /// Makes one key for all waiting sign-ins, unless another sign-in has already replaced the lost key.
    private func made(_ key: any ProofKey, insteadOf lost: ProofPublicKey?) async throws -> ProofPublicKey {
        if let making, making.isOpen { return try await making.value() }
        let call = SharedCall {
            if let known = try await key.publicKey(), known != lost { return known }
            return try await key.make()
        }
        making = call
        return try await call.value()
    }

    // MARK: - Passes

    /// Returns the stored pass, or a new pass if the stored one needs a renewal.
    ///
    /// Returns nil if the client's sessions need a proof with each request, or if there is neither a pass nor a key.
    private func pass(of credentials: Credentials) async throws -> String? {
        let kept = try self.kept()
        let pass = kept.session == credentials.session ? kept.pass : credentials.pass
        if let pass, key == nil || !pass.isDue(at: now()) { return pass.value }
        guard key != nil else { return nil }
        do { return try await renewed(credentials)?.value } catch {
            guard let pass, passes(error) else { throw error }
            return pass.value
        }
    }

    /// Decides whether the old pass is used once more, because its renewal failed only temporarily with this error.
    ///
    /// Examples of such errors are a missing network and a key that is temporarily unavailable.
    private func passes(_ error: any Error) -> Bool {
        switch error {
        case CoatcheckError.keyLost, is CancellationError: false
        case let problem as Problem: problem.passes
        default: true
        }
    }

    /// Requests a new pass with a proof; returns nil if the client's sessions need a proof with each request.
    ///
    /// Simultaneous calls share one request.
    private func renewed(_ credentials: Credentials) async throws -> Credentials.Pass? {
        if let renewing, renewing.session == credentials.session, renewing.call.isOpen {
            return try await renewing.call.value()
        }
        let call = SharedCall { try await self.renew(credentials) }
        renewing = (credentials.session, call)
        return try await call.value()
    }

    private func renew(_ credentials: Credentials) async throws -> Credentials.Pass? {
        let call = Call(method: "POST", path: "/v1/session/pass", evidence: .proof, credentials: credentials)
        var mending = Mending()
        while true {
            let request = try await prepared(call, mending)
            let answer = try await wire.send(request)
            keepNonce(answer.fields)
            if answer.status == 200 { return try keepPass(from: answer, of: credentials) }
            guard let problem = answer.problem else { throw CoatcheckError.unreachable }
            if problem.code == .clientNotAllowed {
                provesEach = true
                return nil
            }
            try learn(from: problem, answer, sent: request)
            guard try mends(problem, of: call, &mending, sent: request) else { throw problem }
        }
    }

    private func keepPass(from answer: Answer, of credentials: Credentials) throws -> Credentials.Pass {
        guard let pass = pass(try answer.decoded(PassBody.self), in: answer) else {
            throw CoatcheckError.notTheBroker(status: answer.status)
        }
        var kept = try kept()
        if kept.session == credentials.session {
            kept.pass = pass
            try storage.write(kept)
        }
        return pass
    }

    /// Returns the pass that a response contains.
    func pass(_ body: PassBody?, in answer: Answer) -> Credentials.Pass? {
        guard let body, let value = body.pass ?? answer.cookie(CookieNames(broker).pass), !value.isEmpty else {
            return nil
        }
        return Credentials.Pass(value: value, received: now(), lifetime: body.expires_in)
    }

    /// Deletes the stored pass if the refused request sent it.
    private func forgetPass(asSentIn request: URLRequest) throws {
        guard var credentials = try storage.read(), let pass = credentials.pass else { return }
        let sent = ["Cookie", "Coatcheck-Pass"].compactMap { request.value(forHTTPHeaderField: $0) }
        guard sent.contains(where: { $0.contains(pass.value) }) else { return }
        credentials.pass = nil
        try storage.write(credentials)
    }

    /// A pass as it appears on the wire.
    struct PassBody: Decodable {
        var expires_in: Double
        var pass: String?
    }
}
