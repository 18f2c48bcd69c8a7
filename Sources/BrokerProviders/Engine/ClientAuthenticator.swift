import Broker

/// Proves a client to its provider in exactly one way (SEC-18).
struct ClientAuthenticator: Sendable {
    /// What the proof adds to a request.
    struct Proof: Sendable {
        var headers: [(name: String, value: String)] = []
        var parameters: [(name: String, value: String)] = []
    }

    let clientID: String
    private let method: ClientAuthentication
    private let basicEncoding: WireSettings.BasicEncoding
    private let signer: AssertionSigner?
    private let secretSigner: AssertionSigner?
    private let assertion: AssertionSettings
    private let clock: BrokerClock
    private let random: @Sendable (Int) throws -> [UInt8]

    private static let assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    private static let appleAudience = "https://appleid.apple.com"

    /// Reads the client's key, when it has one; throws when it is none.
    init(
        _ client: ClientSettings, clock: BrokerClock, random: @escaping @Sendable (Int) throws -> [UInt8]
    ) throws {
        clientID = client.clientID
        method = client.authentication
        basicEncoding = client.wire.basicEncoding
        assertion = client.wire.assertion
        secretSigner =
            switch client.authentication {
            case .clientSecretBasic(let secret), .clientSecretPost(let secret), .clientSecretJWT(let secret):
                AssertionSigner(secret: secret)
            case .none, .blankSecretBasic, .privateKeyJWT, .apple: nil
            }
        self.clock = clock
        self.random = random
        switch client.authentication {
        case .privateKeyJWT(let key): signer = try AssertionSigner(key)
        case .apple(_, let keyID, let key):
            signer = try AssertionSigner(SigningKey(pem: key, keyID: keyID, algorithm: .es256))
        case .none, .clientSecretBasic, .clientSecretPost, .clientSecretJWT, .blankSecretBasic: signer = nil
        }
    }

    /// Whether the client holds a secret or key.
    var isConfidential: Bool {
        switch method {
        case .none, .blankSecretBasic: false
        case .clientSecretBasic, .clientSecretPost, .clientSecretJWT, .privateKeyJWT, .apple: true
        }
    }

    /// The client by HTTP Basic, whichever way its token calls go; nil without a secret.
    var basicHeader: (name: String, value: String)? {
        switch method {
        case .clientSecretBasic(let secret), .clientSecretPost(let secret), .clientSecretJWT(let secret):
            basic(secret.reveal())
        case .none, .blankSecretBasic, .privateKeyJWT, .apple: nil
        }
    }

    /// Makes the proof in a way that `methods` lists, where it lists any; `issuer` and `tokenEndpoint` are what an
    /// assertion's single audience may be (SEC-19).
    ///
    /// Throws `notSent`.
    func proof(
        issuer: String, tokenEndpoint: String, methods: [String]? = nil
    ) async throws(ProviderFailure) -> Proof {
        let audience =
            switch assertion.audience {
            case .issuer: issuer
            case .tokenEndpoint: tokenEndpoint
            case .url(let text): text
            }
        switch method.among(methods) {
        case .none: return Proof(parameters: [("client_id", clientID)])
        case .clientSecretBasic(let secret): return Proof(headers: [basic(secret.reveal())])
        case .blankSecretBasic: return Proof(headers: [basic("")])
        case .clientSecretPost(let secret):
            return Proof(parameters: [("client_id", clientID), ("client_secret", secret.reveal())])
        case .clientSecretJWT, .privateKeyJWT:
            let assertion = try await signed(
                issuer: clientID, audience: audience, seconds: 60, type: self.assertion.type, hasID: true)
            return Proof(parameters: [
                ("client_id", clientID), ("client_assertion_type", Self.assertionType), ("client_assertion", assertion),
            ])
        case .apple(let teamID, _, _):
            // Made anew for each call, so that it is never old and nothing has to be renewed.
            let secret = try await signed(
                issuer: teamID, audience: Self.appleAudience, seconds: 300, type: nil, hasID: false)
            return Proof(parameters: [("client_id", clientID), ("client_secret", secret)])
        }
    }

    private func basic(_ secret: String) -> (name: String, value: String) {
        let pair =
            switch basicEncoding {
            case .form: FormPairs.encode(clientID) + ":" + FormPairs.encode(secret)
            case .raw: clientID + ":" + secret
            }
        return ("Authorization", "Basic " + Base64.encode(Array(pair.utf8)))
    }

    private func signed(
        issuer: String, audience: String, seconds: Int64, type: String?, hasID: Bool
    ) async throws(ProviderFailure) -> String {
        let now = clock.now().seconds
        var id: String?
        if hasID {
            guard let bytes = try? random(16) else { throw .notSent(detail: "no randomness") }
            id = Base64URL.encode(bytes)
        }
        let claims = AssertionSigner.Claims(
            iss: issuer, sub: clientID, aud: audience, jti: id, iat: now, exp: now + seconds)
        let thumbprint = assertion.keyHeader == .thumbprint && hasID ? assertion.thumbprint : nil
        guard let text = await (signer ?? secretSigner)?.sign(claims, type: type, thumbprint: thumbprint) else {
            throw .notSent(detail: "the client assertion could not be signed")
        }
        return text.reveal()
    }
}
