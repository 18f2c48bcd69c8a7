/// Signs a provider's id_tokens with the provider's key.
///
/// If a fault demands it, the signature or the token is wrong.
struct IDTokenSigner {
    let state: SandboxState
    /// The name of the provider whose keys sign the tokens.
    let provider: String
    let algorithm: String
    let faults: Faults

    private func spoil(_ claims: inout JSON, _ fault: Fault) {
        let now = Int(state.now)
        let issuer = claims["iss"]?.text ?? ""
        switch fault.name {
        case "invalid-iss", "refresh-invalid-issuer": claims["iss"] = .string(issuer + "/evil")
        case "missing-iss": claims["iss"] = nil
        case "missing-aud": claims["aud"] = nil
        case "invalid-aud": claims["aud"] = "somebody-else"
        case "aud-array": claims["aud"] = .array([claims["aud"] ?? .null])
        case "invalid-secondary-aud": claims["aud"] = .array([claims["aud"] ?? .null, "somebody-else"])
        case "secondary-aud-azp":
            claims["azp"] = claims["aud"]
            claims["aud"] = .array([claims["aud"] ?? .null, "somebody-else"])
        case "wrong-azp": claims["azp"] = "somebody-else"
        case "missing-iat": claims["iat"] = nil
        case "future-iat":
            claims["iat"] = .int(now + 86_400)
            claims["exp"] = .int(now + 90_000)
        case "old-iat": claims["iat"] = .int(now - 864_000)
        case "nbf-future": claims["nbf"] = .int(now + 86_400)
        case "missing-sub": claims["sub"] = nil
        case "empty-sub": claims["sub"] = ""
        case "number-sub": claims["sub"] = 4711
        case "long-sub": claims["sub"] = .string(String(repeating: "s", count: fault.value?.number ?? 300))
        case "refresh-invalid-sub": claims["sub"] = "somebody-else"
        case "expired":
            claims["iat"] = .int(now - 7_200)
            claims["exp"] = .int(now - 3_600)
        case "missing-exp": claims["exp"] = nil
        case "exp-huge": claims["exp"] = .raw(fault.value?.text ?? "1e300")
        case "exp-string": claims["exp"] = .string(String(now + 3_600))
        case "fractional-exp": claims["exp"] = .raw(String(now + 3_600) + ".5")
        case "nonce-invalid": claims["nonce"] = "not-the-nonce"
        case "nonce-missing": claims["nonce"] = nil
        case "missing-auth-time": claims["auth_time"] = nil
        case "invalid-athash": claims["at_hash"] = .string(Base64URL.encode(Digest256.bytes("other").prefix(16)))
        case "missing-athash": claims["at_hash"] = nil
        case "claims": if let value = fault.value { claims = claims.merging(value) }
        default: Quirks.change(&claims, by: fault)
        }
    }

    /// Signs the claims, after the provider's faults have changed them.
    func sign(_ given: JSON) async throws -> String {
        var claims = given
        for fault in faults.all { spoil(&claims, fault) }
        if faults.has("signing-key-rotation") || faults.has("signing-key-rotation-just-before-signing") {
            state.keys.rotate(provider, keepOld: false)
        }
        if faults.has("signing-key-rotation-keep") { state.keys.rotate(provider, keepOld: true) }
        if faults.has("idtoken-sig-none") { return JWTWriter.unsigned(claims) }
        var algorithm = algorithm
        for (name, other) in [
            ("invalid-sig-rs256", "RS256"), ("invalid-sig-es256", "ES256"),
            ("invalid-sig-ps256", "PS256"), ("invalid-sig-eddsa", "EdDSA"),
        ] where faults.has(name) {
            algorithm = other
        }
        if let other = faults["alg"]?.value?.text { algorithm = other }
        if faults.has("alg-ed25519") { algorithm = "EdDSA" }
        let key = try await state.keys.current(provider, algorithm: algorithm)
        var header: JSON = ["typ": "JWT"]
        if faults.has("kid-absent-single-jwks") || faults.has("kid-absent-multiple-jwks") || faults.has("kid-absent") {
            header["kid"] = .null
        }
        if faults.has("unknown-kid") { header["kid"] = "nobody-knows" }
        if faults.has("crit-header") { header["crit"] = ["b64"] }
        if faults.has("jku-header") { header["jku"] = .string(state.baseURL + "/api/jku") }
        if faults.has("alg-header") { header["alg"] = faults["alg-header"]?.value ?? "HS256" }
        Quirks.change(header: &header, by: faults)
        if let value = faults["header"]?.value { header = header.merging(value) }
        if faults.has("hs256-with-public-key") {
            let secret = Array((key.jwk["n"]?.text ?? key.jwk["x"]?.text ?? "").utf8)
            return try JWTWriter.hs256(claims, header: ["kid": .string(key.id)], secret: secret)
        }
        if faults.has("embedded-jwk") || faults.has("foreign-key") {
            let stranger = KeyRings.Entry(
                id: key.id, algorithm: algorithm,
                key: try await SigningKey.make(algorithm: algorithm, generation: -1))
            if faults.has("embedded-jwk") { header["jwk"] = stranger.jwk }
            return try JWTWriter.sign(claims, header: header, with: stranger)
        }
        let token = try JWTWriter.sign(claims, header: header, with: key)
        return faults.all.contains { $0.name.hasPrefix("invalid-sig-") } ? damaged(token) : token
    }

    /// Returns the token with a damaged signature of the same length.
    private func damaged(_ token: String) -> String {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, var signature = Base64URL.decode(parts[2]), !signature.isEmpty else { return token }
        signature[signature.count / 2] ^= 0x55
        return "\(parts[0]).\(parts[1])." + Base64URL.encode(signature)
    }
}
