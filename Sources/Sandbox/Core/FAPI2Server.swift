import HTTPTypes

/// A server's side of the FAPI 2.0 Security Profile (section 5.3.2), with the setting `profile: fapi2`.
///
/// Such a server refuses the authorization URLs, pushed requests and client authentication that the profile forbids.
struct FAPI2Server {
    let call: Call

    private var isOn: Bool { call.settings.text("profile") == "fapi2" }

    static let idTokenAlgorithms = ["PS256", "ES256", "EdDSA"]
    static let methods = ["private_key_jwt", "tls_client_auth", "self_signed_tls_client_auth"]

    /// Returns the text with upper and lower case exchanged.
    static func inverted(_ text: String) -> String {
        String(text.map { Character($0.isUppercase ? $0.lowercased() : $0.uppercased()) })
    }

    /// Returns the fault of an authorization URL, or nil if it is correct.
    ///
    /// A correct URL has only `client_id` and a pushed `request_uri`.
    func fault(ofOpening visible: Pairs) -> String? {
        guard isOn else { return nil }
        let names = visible.all.map(\.name).filter { !$0.hasPrefix("sandbox_") }.sorted()
        return names == ["client_id", "request_uri"]
            ? nil : "An authorization request has client_id and request_uri, and nothing else."
    }

    /// Refuses a request that lacks S256 PKCE, a redirect URI or the response type `code`.
    ///
    /// With `dpop: require`, the request must also bind its code to a key.
    func check(pushed form: Pairs, thumbprint: String?) throws(OAuthFailure) {
        guard isOn else { return }
        guard form["code_challenge"] != nil, form["code_challenge_method"] == "S256" else {
            throw OAuthFailure.request("PKCE by S256 is required")
        }
        guard form["redirect_uri"] != nil else { throw OAuthFailure.request("redirect_uri is required") }
        guard form["response_type"] == "code" else { throw OAuthFailure.request("response_type has to be code") }
        if call.settings.text("dpop") == "require", form["dpop_jkt"] == nil, thumbprint == nil {
            throw OAuthFailure.request("dpop_jkt or a proof is required")
        }
    }

    /// Refuses a client secret, and a body without `client_id`.
    ///
    /// A client must authenticate with an assertion or a certificate.
    func check(authentication form: Pairs) throws(OAuthFailure) {
        guard isOn else { return }
        guard call.headers[.authorization] == nil, form["client_secret"] == nil, let id = form["client_id"] else {
            throw OAuthFailure.client("no secrets here, and client_id in the body")
        }
        let methods = call.state.client(id, at: call.provider.name)?.methods ?? []
        guard !methods.isDisjoint(with: Self.methods) else {
            throw OAuthFailure.client("only confidential clients with a key or a certificate")
        }
    }

    /// Refuses an assertion in three cases: its audience differs from the issuer as one text; the profile forbids its
    /// algorithm; or its `jti` is missing or was used before.
    func check(assertion: Assertion, issuer: String) throws(OAuthFailure) {
        guard isOn else { return }
        guard assertion.claims["aud"]?.text == issuer else {
            throw OAuthFailure.client("aud has to be the issuer, as one text")
        }
        guard Self.idTokenAlgorithms.contains(assertion.header["alg"]?.text ?? "") else {
            throw OAuthFailure.client("the assertion's algorithm is not the profile's")
        }
        guard let identifier = assertion.claims["jti"]?.text,
            call.state.with({ $0.proofs.insert("assertion " + identifier).inserted })
        else { throw OAuthFailure.client("jti is missing or was used before") }
    }

    /// Changes the metadata as the profile requires.
    func metadata(_ document: JSON) -> JSON {
        guard isOn else { return document }
        var out = document
        func texts(_ values: [String]) -> JSON { .array(values.map { .string($0) }) }
        out["require_pushed_authorization_requests"] = true
        out["token_endpoint_auth_methods_supported"] = texts(Self.methods)
        out["token_endpoint_auth_signing_alg_values_supported"] = texts(Self.idTokenAlgorithms)
        if out["id_token_signing_alg_values_supported"] != nil {
            out["id_token_signing_alg_values_supported"] = texts(Self.idTokenAlgorithms)
        }
        return out
    }
}
