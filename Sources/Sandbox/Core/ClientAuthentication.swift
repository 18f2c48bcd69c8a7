import FoundationEssentials
import HTTPTypes

/// Identifies the calling client, and refuses a request with two authentication methods or with a method that the client may
/// not use (RFC 6749 section 2.3).
struct ClientAuthentication {
    let call: Call
    let issuer: String
    let paths: [String: String]

    private static let assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

    func check(form: Pairs) async throws -> String {
        try FAPI2Server(call: call).check(authentication: form)
        let basic = try basicCredentials()
        let posted = form["client_secret"]
        let assertion = form["client_assertion"]
        let proofs = [basic != nil, posted != nil, assertion != nil].filter { $0 }.count
        guard proofs <= 1 else { throw OAuthFailure.request("more than one way of client authentication") }
        if let (id, secret) = basic {
            if let stated = form["client_id"], stated != id {
                throw OAuthFailure.request("client_id differs from the credential's")
            }
            return try check(id: id, secret: secret, method: "client_secret_basic")
        }
        if let posted {
            guard let id = form["client_id"] else { throw OAuthFailure.request("client_id is missing") }
            return try check(id: id, secret: posted, method: "client_secret_post")
        }
        if let assertion { return try await check(assertion: assertion, form: form) }
        guard let id = form["client_id"], !id.isEmpty else { throw OAuthFailure.client("no client authentication") }
        if let client = call.state.client(id, at: call.provider.name) {
            if !client.methods.isDisjoint(with: SandboxClient.certificateMethods) {
                try checkCertificate(of: client)
                return id
            }
            guard client.methods.contains("none") else { throw OAuthFailure.client("this client has to prove itself") }
        } else if call.settings.text("unknown_clients") != "public" {
            throw OAuthFailure.client("unknown client")
        }
        return id
    }

    /// Checks that the connection's certificate is the client's (RFC 8705 sections 2.1.2 and 2.2).
    ///
    /// The client's registration contains either the certificate itself or its name.
    private func checkCertificate(of client: SandboxClient) throws {
        guard let shown = call.certificate else { throw OAuthFailure.client("this client has to show its certificate") }
        if client.methods.contains("self_signed_tls_client_auth"),
            client.json["x5t#S256"]?.elements?.contains(where: { $0.text == shown.thumbprint }) == true
        {
            return
        }
        if client.methods.contains("tls_client_auth"), let name = client.json["tls_client_auth_san_dns"]?.text,
            shown.names.contains(name)
        {
            return
        }
        throw OAuthFailure.client("the certificate is not this client's")
    }

    /// Returns id and secret from HTTP Basic.
    ///
    /// Both are form-decoded, except with the setting `basic_encoding: raw`.
    func basicCredentials() throws -> (id: String, secret: String)? {
        guard let field = call.headers[.authorization] else { return nil }
        let parts = field.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "basic", let bytes = Data(base64Encoded: String(parts[1])),
            let text = String(validating: bytes, as: UTF8.self)
        else { throw OAuthFailure.client("malformed Authorization field") }
        let halves = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard halves.count == 2 else { throw OAuthFailure.client("malformed Basic credential") }
        if call.settings.text("basic_encoding") == "raw" { return (String(halves[0]), String(halves[1])) }
        return (FormCoding.decode(halves[0]), FormCoding.decode(halves[1]))
    }

    func check(id: String, secret: String, method: String) throws -> String {
        guard let client = call.state.client(id, at: call.provider.name) else {
            throw OAuthFailure.client("unknown client with a secret")
        }
        guard client.methods.contains(method) else { throw OAuthFailure.client("\(method) is not this client's way") }
        guard client.secret == secret else { throw OAuthFailure.client("wrong client secret") }
        return id
    }

    private func check(assertion: String, form: Pairs) async throws -> String {
        guard form["client_assertion_type"] == Self.assertionType else {
            throw OAuthFailure.request("unknown client_assertion_type")
        }
        let claimed = assertion.split(separator: ".").dropFirst().first.flatMap { Base64URL.decode($0) }
            .flatMap { try? JSON.parse($0) }
        guard let id = claimed?["sub"]?.text, let client = call.state.client(id, at: call.provider.name),
            !client.methods.isDisjoint(with: ["private_key_jwt", "client_secret_jwt"])
        else { throw OAuthFailure.client("unknown client of an assertion") }
        let keys = client.keys + [call.state.clientKey.publicJWK]
        let secret = client.methods.contains("client_secret_jwt") ? client.secret : nil
        guard let verified = await Assertion.verify(assertion, keys: keys, secret: secret) else {
            throw OAuthFailure.client("the assertion's signature does not fit")
        }
        if let stated = form["client_id"], stated != id { throw OAuthFailure.client("client_id differs") }
        let claims = verified.claims
        let algorithms = call.settings.json["discovery"]?["token_endpoint_auth_signing_alg_values_supported"]?.elements
        if let algorithms, !algorithms.contains(where: { $0.text == verified.header["alg"]?.text }) {
            throw OAuthFailure.client("the assertion's algorithm is not listed")
        }
        try FAPI2Server(call: call).check(assertion: verified, issuer: issuer)
        let audiences = claims["aud"]?.elements?.compactMap(\.text) ?? [claims["aud"]?.text ?? ""]
        var accepted = [issuer]
        if call.settings.json["assertion_audience"]?.text == "token_endpoint" {
            accepted = paths.filter { $0.value == "token" }.map { issuer + $0.key }
        }
        if let type = call.settings.json["assertion_typ"]?.text, verified.header["typ"]?.text != type {
            throw OAuthFailure.client("the assertion's typ is wrong")
        }
        if call.settings.json["assertion_audience"]?.text == "any" {
            accepted += paths.filter { ["token", "par", "revoke"].contains($0.value) }.map { issuer + $0.key }
        }
        guard claims["iss"]?.text == id, audiences.count == 1, accepted.contains(audiences[0]) else {
            throw OAuthFailure.client("the assertion's iss or aud is wrong")
        }
        guard let expiry = claims["exp"]?.number, Double(expiry) > call.now, claims["jti"]?.text != nil else {
            throw OAuthFailure.client("the assertion has expired, or has no jti")
        }
        return id
    }
}
