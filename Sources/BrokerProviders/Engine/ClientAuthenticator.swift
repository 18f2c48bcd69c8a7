import Broker
import Synchronization

/// Authenticates a client to its provider, with exactly one method per call (SEC-18).
///
/// Only this type has the client's credential and selects the method for each endpoint.
struct ClientAuthenticator: Sendable {
    /// An endpoint that the client authenticates to.
    enum Endpoint: Sendable {
        case token, revocation, pushedAuthorization
    }

    /// The possible values of an assertion's single audience (SEC-19), and the server's algorithms.
    struct Addressee: Sendable {
        var issuer: String
        var tokenEndpoint: String
        /// The address of the called endpoint.
        var called: String
        /// The algorithms that the server's metadata lists for client assertions; nil without such a list.
        var algorithms: [String]?
    }

    /// The parameters and header fields that authentication adds to a request.
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
    private let accepted = AcceptedWays()

    private static let assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    private static let appleAudience = "https://appleid.apple.com"

    /// Creates the authenticator of a client, and reads the client's key, if any; throws if the key is unusable.
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
            case .none, .blankSecretBasic, .privateKeyJWT, .tlsClientAuth, .selfSignedTLSClientAuth, .apple: nil
            }
        self.clock = clock
        self.random = random
        switch client.authentication {
        case .privateKeyJWT(let key): signer = try AssertionSigner(key)
        case .apple(_, let keyID, let key):
            signer = try AssertionSigner(SigningKey(pem: key, keyID: keyID, algorithm: .es256))
        case .none, .clientSecretBasic, .clientSecretPost, .clientSecretJWT, .blankSecretBasic, .tlsClientAuth,
            .selfSignedTLSClientAuth:
            signer = nil
        }
    }

    /// Whether the client has a secret, a key or a certificate that authenticates it.
    var isConfidential: Bool {
        switch method {
        case .none, .blankSecretBasic: false
        case .clientSecretBasic, .clientSecretPost, .clientSecretJWT, .privateKeyJWT, .tlsClientAuth,
            .selfSignedTLSClientAuth, .apple:
            true
        }
    }

    /// Whether the connection's certificate authenticates the client.
    var isByCertificate: Bool {
        switch method {
        case .tlsClientAuth, .selfSignedTLSClientAuth: true
        case .none, .clientSecretBasic, .clientSecretPost, .blankSecretBasic, .clientSecretJWT, .privateKeyJWT, .apple:
            false
        }
    }

    /// The HTTP Basic header with the client's secret, even if token calls use the secret in another way; nil without a
    /// secret.
    var basicHeader: (name: String, value: String)? {
        switch method {
        case .clientSecretBasic(let secret), .clientSecretPost(let secret), .clientSecretJWT(let secret):
            basic(secret.reveal())
        case .none, .blankSecretBasic, .privateKeyJWT, .tlsClientAuth, .selfSignedTLSClientAuth, .apple: nil
        }
    }

    /// Makes a call with the client's authentication.
    ///
    /// If the server refuses the authentication and a second method is known for this endpoint, the call is repeated with the
    /// second method. A token call is made only once, with the configured method, because even a refusal of the client may
    /// spend a code or refresh token.
    ///
    /// `listed` are the methods for the endpoint in the metadata.
    func send(
        to endpoint: Endpoint, listed: [String]?, _ addressee: Addressee,
        _ call: (Proof) async throws(ProviderFailure) -> ProviderAnswer
    ) async throws(ProviderFailure) -> ProviderAnswer {
        let ways = accepted.ordered(ways(to: endpoint, listed: listed), at: endpoint)
        let answer = try await call(try await proof(ways.first ?? method, addressee))
        guard ways.count > 1, let other = ways.last, Self.isRefused(answer) else { return answer }
        let second = try await call(try await proof(other, addressee))
        if second.isSuccess { accepted.note(other, at: endpoint) }
        return second
    }

    /// The methods to try at an endpoint, at most two, in order.
    ///
    /// - A token call has only the configured method.
    /// - A revocation begins with the method from the metadata, because Canaille accepts only Basic there. The configured
    ///   method is second, because Glewlwyd lists Basic but accepts only the client's registered method.
    /// - A pushed request begins with the configured method. The metadata has no list for this endpoint, so the token
    ///   endpoint's list is used (RFC 9126), which is less reliable.
    private func ways(to endpoint: Endpoint, listed: [String]?) -> [ClientAuthentication] {
        let among = method.among(listed)
        guard endpoint != .token, among.method != method.method else { return [method] }
        return endpoint == .revocation ? [among, method] : [method, among]
    }

    /// Whether an answer refuses the client's authentication, so that the call had no other effect (RFC 6749 section 5.2).
    private static func isRefused(_ answer: ProviderAnswer) -> Bool {
        // This answer refuses only the nonce in the DPoP proof, and not the client's authentication.
        if answer.asksForNonce { return false }
        if answer.status == 401 { return true }
        guard (400..<500).contains(answer.status) else { return false }
        return answer.object?["error"]?.string == "invalid_client"
    }

    /// Returns the authentication for a request; throws `notSent` if signing or the random generator fails.
    private func proof(
        _ way: ClientAuthentication, _ addressee: Addressee
    ) async throws(ProviderFailure) -> Proof {
        let audience =
            switch assertion.audience {
            case .issuer: addressee.issuer
            case .tokenEndpoint: addressee.tokenEndpoint
            case .endpoint: addressee.called
            case .url(let text): text
            }
        switch way {
        // With a certificate, the connection authenticates the client, but the request still has to contain the `client_id`
        // (RFC 8705 section 2).
        case .none, .tlsClientAuth, .selfSignedTLSClientAuth: return Proof(parameters: [("client_id", clientID)])
        case .clientSecretBasic(let secret): return Proof(headers: [basic(secret.reveal())])
        case .blankSecretBasic: return Proof(headers: [basic("")])
        case .clientSecretPost(let secret):
            return Proof(parameters: [("client_id", clientID), ("client_secret", secret.reveal())])
        case .clientSecretJWT, .privateKeyJWT:
            let assertion = try await signed(
                issuer: clientID, audience: audience, seconds: 60, type: self.assertion.type, hasID: true,
                listed: addressee.algorithms)
            return Proof(parameters: [
                ("client_id", clientID), ("client_assertion_type", Self.assertionType), ("client_assertion", assertion),
            ])
        case .apple(let teamID, _, _):
            // Apple's client secret is a JWT that expires, so make a new one for each call.
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
        issuer: String, audience: String, seconds: Int64, type: String?, hasID: Bool, listed: [String]? = nil
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
        guard
            let text = await (signer ?? secretSigner)?.sign(
                claims, type: type, thumbprint: thumbprint, listed: listed)
        else { throw .notSent(detail: "the client assertion could not be signed") }
        return text.reveal()
    }
}

/// The methods that endpoints accepted after they had refused the first method; at most one for each endpoint.
private final class AcceptedWays: Sendable {
    private let methods = Mutex<[ClientAuthenticator.Endpoint: String]>([:])

    /// Moves the method that the endpoint last accepted to the front.
    func ordered(
        _ ways: [ClientAuthentication], at endpoint: ClientAuthenticator.Endpoint
    ) -> [ClientAuthentication] {
        guard let method = methods.withLock({ $0[endpoint] }) else { return ways }
        return ways.filter { $0.method == method } + ways.filter { $0.method != method }
    }

    func note(_ way: ClientAuthentication, at endpoint: ClientAuthenticator.Endpoint) {
        methods.withLock { $0[endpoint] = way.method }
    }
}
