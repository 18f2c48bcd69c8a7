import Broker
import BrokerProviders

/// Applies the values that `profile: fapi2` requires, and checks the other settings against the FAPI 2.0 Security Profile.
struct FAPI2Rules {
    let client: ConfigSection
    let provider: ConfigSection?

    private static let words = "contradicts profile fapi2: "

    /// Sets the client's authentication and the binding of its tokens to the values of the profile, if the file leaves them
    /// open.
    func expand(
        _ authentication: inout ClientAuthentication, _ wire: inout WireSettings, _ shared: CredentialReader.Shared
    ) {
        let hasKey = place("private_key") != nil
        let hasCertificate = [client, provider].contains { section in
            section?.place(of: "tls", "certificate") != nil || section?.place(of: "certificate") != nil
        }
        if place("sender_constrained") == nil { wire.senderConstraint = hasCertificate && !hasKey ? .mtls : .dpop }
        guard client.place(of: "auth") == nil, !client.context.isCataloguing else { return }
        if client.place(of: "client_secret") != nil {
            report("client_secret", "a client needs its own key, not a shared secret")
        } else if place("apple") != nil {
            report("apple", "a client proves itself by `private_key` or a certificate")
        } else if hasKey {
            authentication = shared.privateKey.map(ClientAuthentication.privateKeyJWT) ?? .none
        } else if hasCertificate {
            authentication = .tlsClientAuth
        } else {
            client.report(nil, Self.words + "needs `private_key`, or `tls: {certificate, key}`, to prove itself by")
        }
    }

    /// Reports each setting that contradicts the profile, at its own line.
    func check(
        _ profile: ClientProfile, _ kind: ProviderKind, _ authentication: ClientAuthentication, _ wire: WireSettings
    ) {
        guard !client.context.isCataloguing, kind == .oidc || kind == .oauth2 else { return }
        if client.place(of: "auth") != nil, !client.context.isFaulty("\(client.path).auth") {
            switch authentication {
            case .privateKeyJWT, .tlsClientAuth, .selfSignedTLSClientAuth: break
            case .none, .clientSecretBasic, .clientSecretPost, .blankSecretBasic, .clientSecretJWT, .apple:
                report("auth", "it has to be `private_key_jwt`, `tls_client_auth` or `self_signed_tls_client_auth`")
            }
        }
        if case .privateKeyJWT(let key) = authentication { checkSigningKey(key) }
        if wire.pushedAuthorization != .required { report("par", "it has to be `required`") }
        if wire.senderConstraint == .off { report("sender_constrained", "it has to be `dpop` or `mtls`") }
        if wire.assertion.audience != .issuer { report("assertion", below: "audience", "it has to be `issuer`") }
        if !wire.idToken.algorithms.allSatisfy(ConformanceProfile.algorithms.contains) {
            report("id_token", below: "algorithms", "id_tokens are signed by PS256, ES256 or EdDSA")
        }
        if wire.idToken.leeway > ConformanceProfile.leeways.upperBound {
            report("id_token", below: "leeway", "it is 60s at the most")
        }
        if wire.idToken.issuerTemplate != nil {
            report("id_token", below: "issuer_template", "`iss` is compared with the issuer byte for byte")
        }
        checkTokenRequest(wire.tokenRequest)
        if profile.login != .broker {
            report("login", "a login is pushed with the client's own proof, which no app has: it has to be `broker`")
        }
        if profile.nativeCode { report("native_code", "the request of such a code was not pushed") }
        if profile.importTokens || client.place(of: "import_tokens") != nil {
            report("import_tokens", "imported tokens are not bound to the broker's key")
        }
        if client.place(of: "move_in") != nil {
            report("move_in", "the old system's tokens lack the broker's key")
        }
        if profile.pkce == .unsupported { report("pkce", "it has to be `required`") }
        if kind == .oidc, !profile.nonce { report("nonce", "it has to be `on`") }
        if profile.handsOutAccessToken {
            report(
                "hand_out_access_token",
                "the token is useless without its key or certificate, which never leaves the broker")
        }
    }

    /// The token request's parameters that the profile depends on.
    private static let needed: Set<String> = [
        "code_verifier", "client_assertion", "client_assertion_type", "client_id", "redirect_uri",
    ]

    private func checkTokenRequest(_ request: TokenRequestSettings) {
        if request.encoding != .form { report("token_request", below: "encoding", "it has to be `form`") }
        if let name = Self.needed.intersection(request.omit).min() {
            report("token_request", below: "omit", "`\(name)` has to be sent")
        }
        if let name = Self.needed.intersection(request.rename.flatMap { [$0, $1] }).min() {
            report(
                "token_request", below: "rename",
                "`\(name)` has to keep its name, and no other parameter may get this name")
        }
    }

    private func checkSigningKey(_ key: SigningKey) {
        if !ConformanceProfile.algorithms.contains(key.algorithm) {
            report("private_key", below: "algorithm", "it has to be ES256, PS256 or EdDSA")
        }
        if key.isTooShort { report("private_key", below: "file", "an RSA key has 2048 bits or more") }
    }

    /// Reports settings in the provider's section that contradict the profile.
    static func check(_ settings: ProviderSettings, _ section: ConfigSection, hasPreset preset: Preset?) {
        func report(_ key: String, below: String? = nil, _ why: String) {
            let place = section.place(of: key, below) ?? section.place(of: key) ?? (section.path, section.line)
            section.context.report(words + why, path: place.path, line: place.line)
        }
        guard settings.service.kind == .oidc || settings.service.kind == .oauth2 else {
            return report(section.has("kind") ? "kind" : "preset", "it is for the kinds `oidc` and `oauth2`")
        }
        let fromMetadata = "endpoints come from the issuer's metadata alone"
        if section.place(of: "discovery") != nil, !settings.discovery { report("discovery", fromMetadata) }
        let written = EndpointReader.names.filter { section.place(of: "endpoints", $0) != nil }
        for name in written where !["end_session", "introspection"].contains(name) {
            report("endpoints", below: name, fromMetadata)
        }
        if section.place(of: "callback_issuer") != nil {
            report("callback_issuer", "`iss` is compared with the issuer byte for byte")
        }
        var own = preset?.endpoints ?? EndpointSettings()
        own.endSession = nil
        own.introspection = nil
        if own != EndpointSettings() { report("preset", "its endpoints are fixed: " + fromMetadata) }
        if settings.issuer == nil { report("issuer", "needs `issuer`: " + fromMetadata) }
    }

    /// Returns the path of a key in the client's section, or in the provider's section if the client's section lacks the key.
    private func place(_ key: String, _ below: String? = nil) -> (path: String, line: Int?)? {
        client.place(of: key, below) ?? provider?.place(of: key, below)
    }

    private func report(_ key: String, below: String? = nil, _ why: String) {
        let place = place(key, below) ?? place(key) ?? (client.path, client.line)
        client.context.report(Self.words + why, path: place.path, line: place.line)
    }
}
