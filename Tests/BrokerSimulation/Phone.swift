import Broker

/// The method and path of an app's request, which a proof has to name.
struct SimulatedRequest: Sendable, Equatable {
    static let login = SimulatedRequest(method: "POST", path: "/v1/logins")
    static let forward = SimulatedRequest(method: "POST", path: "/v1/sessions")
    static let use = SimulatedRequest(method: "GET", path: "/v1/session")
    static let registration = SimulatedRequest(method: "PUT", path: "/v1/session/presence-key")

    let method: String
    let path: String

    /// The method and address that the broker compares with a proof of this request.
    var target: ProofTarget { ProofTarget(method: method, address: .own(path: path)) }
}

/// A phone with two keys: the key that its session belongs to; and the presence key, which the phone's system unlocks only
/// after it has asked the user.
struct Phone: Sendable {
    /// A key, with the header of the proofs that this key signs.
    struct Key: Sendable {
        fileprivate let pair: ProofKeyPair
        fileprivate let header: String
        let thumbprint: Digest

        fileprivate init(_ vault: SimulatedVault) throws(VaultFailure) {
            pair = try vault.proofKeyPair(seed: try vault.random(16))
            let canonical = pair.publicKey.canonical
            header = Base64URL.encode(Array(#"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(canonical)}"#.utf8))
            thumbprint = vault.digest(Array(canonical.utf8))
        }
    }

    /// The key that the session belongs to.
    let own: Key
    /// The presence key.
    let presence: Key
    private let vault: SimulatedVault

    init(_ vault: SimulatedVault) throws(VaultFailure) {
        self.vault = vault
        own = try Key(vault)
        presence = try Key(vault)
    }

    /// Makes a proof over a request (RFC 9449 section 4.2).
    ///
    /// `token` is the session token in the request; nil if the request has none.
    func proof(_ request: SimulatedRequest, by key: Key, token: Secret?, nonce: String) -> String {
        let identifier = (try? vault.randomToken().reveal()) ?? ""
        let hash = token.map { #","ath":"\#(Base64URL.encode(vault.digest($0).bytes))""# } ?? ""
        let claims = """
            {"jti":"\(identifier)","htm":"\(request.method)","htu":"\(SimulatedProcess.publicURL)\(request.path)",\
            "iat":1,"nonce":"\(nonce)"\(hash)}
            """
        let input = key.header + "." + Base64URL.encode(Array(claims.utf8))
        let signature = (try? vault.es256Signature(over: Array(input.utf8), by: key.pair)) ?? []
        return input + "." + Base64URL.encode(signature)
    }

    /// Makes the evidence for a request: a proof by one of the phone's keys, with the newest nonce of the process that gets the
    /// request.
    func evidence(
        _ request: SimulatedRequest, by key: Key, token: Secret?, at useCases: BrokerUseCases
    ) -> PresentedEvidence {
        let proof = proof(request, by: key, token: token, nonce: useCases.proofNonce())
        return PresentedEvidence(proofs: [proof], target: request.target)
    }
}

extension Ticket {
    /// Returns the evidence for a request with the session token: a proof if the session is bound, otherwise none.
    func evidence(_ request: SimulatedRequest = .use, at useCases: BrokerUseCases) -> PresentedEvidence {
        phone.map { $0.evidence(request, by: $0.own, token: token, at: useCases) } ?? PresentedEvidence.none
    }
}

extension ForwardCodeInput {
    /// Returns a copy of this input with a new proof by the phone's own key; unchanged if there is no phone.
    func shown(by phone: Phone?, at useCases: BrokerUseCases) -> ForwardCodeInput {
        guard let phone else { return self }
        var input = self
        input.evidence = phone.evidence(.forward, by: phone.own, token: nil, at: useCases)
        return input
    }
}
