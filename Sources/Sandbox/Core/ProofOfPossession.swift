import HTTPTypes
import Hummingbird

/// The server's side of DPoP (RFC 9449): checks the proof of a request, and adds nonces to answers.
struct ProofOfPossession {
    /// The role of the server that checks; each role has nonces of its own (sections 8 and 9).
    enum Role: String { case authorization, resource }

    let call: Call
    let role: Role

    /// The data of a valid proof.
    struct Shown {
        /// The thumbprint of the proof's key (RFC 7638).
        let thumbprint: String
        let tokenHash: String?
    }

    /// Whether the provider's authorization server checks proofs at all.
    var isOn: Bool { ["accept", "require"].contains(call.settings.text("dpop")) }

    private var nonces: String { call.settings.text("nonces") }
    private var givesNonces: Bool { nonces == "keep" || nonces == "change" }
    private var place: String { call.provider.name + "/" + role.rawValue }

    /// The currently valid nonce.
    private var nonce: String {
        let fresh = Random.token("n-", bytes: 12)
        return call.state.with { storage in
            let known = storage.nonces[place] ?? fresh
            storage.nonces[place] = known
            return known
        }
    }

    /// Checks the request's proof; returns nil if an optional proof is missing.
    func check() async throws(OAuthFailure) -> Shown? {
        if call.faults.has("forgets-nonces") { call.state.with { $0.nonces[place] = nil } }
        guard let name = HTTPField.Name("DPoP") else { return nil }
        let fields = call.headers[values: name]
        guard let text = fields.first else {
            guard call.settings.text("dpop") == "require" else { return nil }
            throw refusal("a proof is wanted")
        }
        guard fields.count == 1, !call.faults.has("refuses-proof") else { throw refusal("no such proof") }
        let header = text.split(separator: ".").first.flatMap { Base64URL.decode($0) }.flatMap { try? JSON.parse($0) }
        guard let jwk = header?["jwk"], header?["typ"]?.text == "dpop+jwt", header?["alg"]?.text == "ES256",
            jwk["kty"]?.text == "EC", jwk["crv"]?.text == "P-256", jwk["d"] == nil, let x = jwk["x"]?.text,
            let y = jwk["y"]?.text, let proof = await Assertion.verify(text, keys: [jwk])
        else { throw refusal("the proof is malformed, or its signature not its key's") }
        let claims = proof.claims
        let origin = call.certificate == nil ? call.baseURL : call.state.with { $0.mutualTLSURL }
        guard claims["htm"]?.text == call.method.rawValue, claims["htu"]?.text == origin + call.path else {
            throw refusal("htm or htu is not this request's")
        }
        guard let issuedAt = claims["iat"]?.number, abs(Double(issuedAt) - call.now) <= 300 else {
            throw refusal("iat is too far off")
        }
        try take(claims["jti"]?.text)
        if givesNonces { try check(nonce: claims["nonce"]?.text) }
        let canonical = #"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#
        return Shown(thumbprint: Digest256.base64url(canonical), tokenHash: claims["ath"]?.text)
    }

    private func take(_ identifier: String?) throws(OAuthFailure) {
        guard let identifier, identifier.utf8.count >= 16 else { throw refusal("jti is missing or short") }
        guard call.state.with({ $0.proofs.insert(identifier).inserted }) else { throw refusal("jti was used before") }
    }

    private func check(nonce shown: String?) throws(OAuthFailure) {
        if call.faults.has("repeats-nonce"), let shown { call.state.with { $0.nonces[place] = shown } }
        guard shown != nonce || call.faults.has("repeats-nonce") else { return }
        let status = Int(call.settings.seconds("nonce_status"))
        throw OAuthFailure(
            status: role == .resource ? 401 : status == 0 ? 400 : status, error: "use_dpop_nonce",
            description: "a nonce is wanted")
    }

    private func refusal(_ description: String) -> OAuthFailure {
        OAuthFailure(
            status: role == .resource ? 401 : 400, error: "invalid_dpop_proof", description: description)
    }

    /// Adds the nonce for the next request to an answer.
    func give(_ response: Response) -> Response {
        guard isOn || role == .resource, givesNonces else { return response }
        if nonces == "change", !call.faults.has("repeats-nonce") { call.state.with { $0.nonces[place] = nil } }
        var response = response
        response.headers.append("DPoP-Nonce", nonce)
        return response
    }
}
