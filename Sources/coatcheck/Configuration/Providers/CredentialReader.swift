import Broker
import BrokerProviders

/// Reads the settings of a client's authentication: `auth`, with `client_secret`, `private_key` or `apple`.
enum CredentialReader {
    private enum AuthenticationMethod: String, CaseIterable {
        case none
        case clientSecretBasic = "client_secret_basic"
        case clientSecretPost = "client_secret_post"
        case clientSecretJWT = "client_secret_jwt"
        case privateKeyJWT = "private_key_jwt"
        case blankSecretBasic = "blank_secret_basic"
        case tlsClientAuth = "tls_client_auth"
        case selfSignedTLSClientAuth = "self_signed_tls_client_auth"

        /// Whether the method uses no client secret.
        var hasNoSecret: Bool {
            switch self {
            case .none, .blankSecretBasic, .privateKeyJWT, .tlsClientAuth, .selfSignedTLSClientAuth: true
            case .clientSecretBasic, .clientSecretPost, .clientSecretJWT: false
            }
        }
    }

    /// The credentials in the provider's section, which all its clients inherit.
    struct Shared: Sendable {
        var privateKey: SigningKey?
        var apple: ClientAuthentication?
    }

    /// Reads the credentials in the section of a provider or a client.
    ///
    /// `algorithm` is the default for a key's signatures.
    static func shared(
        _ section: ConfigSection, over base: Shared = Shared(), algorithm: SignatureAlgorithm
    ) -> Shared {
        Shared(
            privateKey: section.optionalSection("private_key").flatMap { signingKey($0, algorithm) } ?? base.privateKey,
            apple: section.optionalSection("apple").flatMap(apple) ?? base.apple)
    }

    /// Reads a client's authentication method.
    ///
    /// Reports contradictory settings. If the method's secret or key is missing or unusable, returns `none`.
    static func read(
        _ section: ConfigSection, kind: ProviderKind, shared: Shared, secretInBody: Bool
    ) -> ClientAuthentication {
        let secret = section.secret("client_secret")
        let hasSecret = section.has("client_secret")
        let method = section.choice("auth", as: AuthenticationMethod.self)
        if hasSecret, method?.hasNoSecret == true {
            section.report("client_secret", "is given although `auth` says that there is none")
        }
        if method == .clientSecretBasic || method == .clientSecretPost || method == .clientSecretJWT, !hasSecret {
            section.report("auth", "needs `client_secret`")
        }
        switch method {
        case AuthenticationMethod.none?: return .none
        case .clientSecretBasic?: return secret.map { .clientSecretBasic($0) } ?? .none
        case .clientSecretPost?: return secret.map { .clientSecretPost($0) } ?? .none
        case .clientSecretJWT?:
            // RFC 7518 section 3.2 requires a key of at least the hash's length, which is 32 bytes for HS256.
            if let secret, secret.bytes().count < 32 {
                section.report("client_secret", "has to be at least 32 bytes long for `client_secret_jwt`")
            }
            return secret.map { .clientSecretJWT($0) } ?? .none
        case .blankSecretBasic?:
            if kind != .clever, kind != .oauth2 {
                section.report("auth", "cannot be `blank_secret_basic` for kind `\(kind.rawValue)`")
            }
            return .blankSecretBasic
        case .privateKeyJWT?:
            guard let key = shared.privateKey else {
                if !section.has("private_key") {
                    section.report("auth", "needs `private_key`, here or on the provider")
                }
                return .none
            }
            return .privateKeyJWT(key)
        case .tlsClientAuth?: return .tlsClientAuth
        case .selfSignedTLSClientAuth?: return .selfSignedTLSClientAuth
        case nil:
            if let apple = shared.apple { return apple }
            return secret.map { secretInBody ? .clientSecretPost($0) : .clientSecretBasic($0) } ?? .none
        }
    }

    /// Reads `algorithm`.
    ///
    /// Ed25519 is the newer name of EdDSA (RFC 9864).
    private static func signingAlgorithm(_ section: ConfigSection) -> SignatureAlgorithm? {
        if section.scalar("algorithm")?.text == SignatureAlgorithm.fullyNamedEdDSA { return .edDSA }
        return section.choice("algorithm", among: [.es256, .es384, .rs256, .ps256, .edDSA])
    }

    private static func signingKey(_ section: ConfigSection, _ algorithm: SignatureAlgorithm) -> SigningKey? {
        let keyID = section.text("key_id", limit: 256)
        let algorithm = Self.signingAlgorithm(section) ?? algorithm
        section.require("file")
        let name = section.scalar("algorithm")?.text
        return section.privateKeyFile("file").map { pem in
            SigningKey(pem: pem, keyID: keyID, algorithm: algorithm, algorithmName: name)
        }
    }

    private static func apple(_ section: ConfigSection) -> ClientAuthentication? {
        let teamID = section.requiredText("team_id", limit: 32)
        let keyID = section.requiredText("key_id", limit: 32)
        section.require("key")
        let key = section.section("key")
        if section.has("key") { key.require("file") }
        guard let pem = key.privateKeyFile("file"), let teamID, let keyID else { return nil }
        return .apple(teamID: teamID, keyID: keyID, key: pem)
    }
}

/// Reads the form of a client's signed assertion (`assertion`).
enum AssertionReader {
    static func read(_ section: ConfigSection, into settings: inout AssertionSettings) {
        if let audience = section.text("audience", limit: 2048) {
            switch audience {
            case "issuer": settings.audience = .issuer
            case "token_endpoint": settings.audience = .tokenEndpoint
            case "endpoint": settings.audience = .endpoint
            default:
                if let url = WebURL(audience), url.isSecure || url.isLoopback {
                    settings.audience = .url(audience)
                } else {
                    section.report("audience", "has to be `issuer`, `token_endpoint`, `endpoint` or an https URL")
                }
            }
        }
        if let type = section.text("typ", limit: 64) {
            if type.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }) {
                settings.type = type
            } else {
                section.report("typ", "has to be a media type such as `JWT`")
            }
        }
        settings.keyHeader = section.choice("key_header", as: AssertionSettings.KeyHeader.self) ?? settings.keyHeader
        let certificate = section.section("certificate")
        if section.has("certificate") { certificate.require("file") }
        guard let file = certificate.readableFile("file") else { return }
        guard let thumbprint = CertificateThumbprint.first(inPEM: String(decoding: file.bytes, as: UTF8.self)) else {
            certificate.report("file", "names a file without a certificate in PEM")
            return
        }
        settings.thumbprint = thumbprint
    }
}
