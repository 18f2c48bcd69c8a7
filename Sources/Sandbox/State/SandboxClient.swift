/// One registered client of a provider.
struct SandboxClient: Sendable {
    var id: String
    /// The secret; nil if the client has no secret.
    ///
    /// An empty text is a blank secret, which differs from nil.
    var secret: String?
    /// The permitted methods: `none`, `client_secret_basic`, `client_secret_post`, `client_secret_jwt`, `private_key_jwt`,
    /// `tls_client_auth`, `self_signed_tls_client_auth`.
    var methods: Set<String>
    /// The permitted redirect URIs; if empty, all are permitted.
    var redirectURIs: [String]
    /// Public keys for `private_key_jwt`.
    var keys: [JSON]
    /// Further settings (`require_pkce`, …).
    var json: JSON

    /// The methods that use the connection's certificate.
    static let certificateMethods: Set<String> = ["tls_client_auth", "self_signed_tls_client_auth"]

    init(id: String, secret: String? = nil, methods: Set<String> = ["none"], redirectURIs: [String] = []) {
        self.id = id
        self.secret = secret
        self.methods = methods
        self.redirectURIs = redirectURIs
        keys = []
        json = [:]
    }

    /// Reads a client in the form of the control API: `{secret, auth, redirect_uris, jwks}`; `auth` is a text or an array.
    init(id: String, json: JSON) {
        self.id = id
        secret = json["secret"]?.text
        let named = json["auth"]?.elements?.compactMap(\.text) ?? json["auth"]?.text.map { [$0] }
        switch (named, secret) {
        case (.some(let methods), _): self.methods = Set(methods)
        case (.none, .some): methods = ["client_secret_basic", "client_secret_post"]
        case (.none, .none): methods = ["none"]
        }
        redirectURIs = json["redirect_uris"]?.elements?.compactMap(\.text) ?? []
        keys = json["jwks"]?["keys"]?.elements ?? []
        self.json = json
    }

    /// The initial clients of a provider (docs/apps/sandbox.md).
    static func defaults(of provider: String) -> [String: SandboxClient] {
        var either = SandboxClient(
            id: "web", secret: "web-secret", methods: ["client_secret_basic", "client_secret_post"])
        if provider == "oidc" || provider == "oauth2" || provider == "cloudentity" {
            either.methods = ["client_secret_basic"]
        }
        let clients = [
            either,
            SandboxClient(id: "web-post", secret: "web-post-secret", methods: ["client_secret_post"]),
            SandboxClient(id: "reserved: %+ü", secret: "s:cr%t +/ü&=", methods: ["client_secret_basic"]),
            SandboxClient(id: "web-jwt", methods: ["private_key_jwt"]),
            SandboxClient(id: "ios-0001", secret: "", methods: ["client_secret_basic"]),
            SandboxClient(id: "web-0001", secret: "clever-secret", methods: ["client_secret_basic"]),
        ]
        let wanted = provider == "clever" ? clients.suffix(2) : clients.prefix(4)
        return Dictionary(uniqueKeysWithValues: wanted.map { ($0.id, $0) })
    }
}
