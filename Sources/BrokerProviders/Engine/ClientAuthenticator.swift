import Broker
import FoundationEssentials
import Synchronization

/// Proves a client to its provider, in exactly one way a call (SEC-18): the owner of its credential, and of which way goes
/// to which endpoint.
struct ClientAuthenticator: Sendable {
    /// An endpoint that the client proves itself to.
    enum Endpoint: Sendable {
        case token, revocation, pushedAuthorization
    }

    /// The choices for an assertion's single audience (SEC-19).
    struct Audiences: Sendable {
        var issuer: String
        var tokenEndpoint: String
        /// The address that is called, whichever of the server's it is.
        var called: String
    }

    /// The proof's additions to a request.
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

    /// Whether the client holds a secret, a key or a certificate that proves it.
    var isConfidential: Bool {
        switch method {
        case .none, .blankSecretBasic: false
        case .clientSecretBasic, .clientSecretPost, .clientSecretJWT, .privateKeyJWT, .tlsClientAuth,
            .selfSignedTLSClientAuth, .apple:
            true
        }
    }

    /// Whether the connection's certificate is what proves it.
    var isByCertificate: Bool {
        switch method {
        case .tlsClientAuth, .selfSignedTLSClientAuth: true
        case .none, .clientSecretBasic, .clientSecretPost, .blankSecretBasic, .clientSecretJWT, .privateKeyJWT, .apple:
            false
        }
    }

    /// The client by HTTP Basic, whichever way its token calls go; nil without a secret.
    var basicHeader: (name: String, value: String)? {
        switch method {
        case .clientSecretBasic(let secret), .clientSecretPost(let secret), .clientSecretJWT(let secret):
            basic(secret.reveal())
        case .none, .blankSecretBasic, .privateKeyJWT, .tlsClientAuth, .selfSignedTLSClientAuth, .apple: nil
        }
    }

    /// Makes a call with the client's proof; where the server refuses it as that, and another way is known for this
    /// endpoint, once more with that.
    ///
    /// A token call is made once, with the configured way: a code or refresh token may be spent by the answer that refuses
    /// its client. `listed` is what the metadata lists for the endpoint.
    func send(
        to endpoint: Endpoint, listed: [String]?, _ audiences: Audiences,
        _ call: (Proof) async throws(ProviderFailure) -> ProviderAnswer
    ) async throws(ProviderFailure) -> ProviderAnswer {
        let ways = accepted.ordered(ways(to: endpoint, listed: listed), at: endpoint)
        let answer = try await call(try await proof(ways.first ?? method, audiences))
        guard ways.count > 1, let other = ways.last, Self.isRefused(answer) else { return answer }
        let second = try await call(try await proof(other, audiences))
        if second.isSuccess { accepted.note(other, at: endpoint) }
        return second
    }

    /// The ways to try at an endpoint, two at most.
    ///
    /// At revocation the listed one is first (Canaille takes Basic there alone), and the configured one second (Glewlwyd
    /// lists Basic and takes what the client is registered for). PAR is the token endpoint's by RFC 9126, and what the
    /// client is registered for is known better from the configuration.
    private func ways(to endpoint: Endpoint, listed: [String]?) -> [ClientAuthentication] {
        let among = method.among(listed)
        guard endpoint != .token, among.method != method.method else { return [method] }
        return endpoint == .revocation ? [among, method] : [method, among]
    }

    /// Whether an answer refuses the client's proof, and so has done nothing else (RFC 6749 section 5.2).
    private static func isRefused(_ answer: ProviderAnswer) -> Bool {
        // What is wrong there is our proof's nonce.
        if answer.asksForNonce { return false }
        if answer.status == 401 { return true }
        guard (400..<500).contains(answer.status) else { return false }
        return answer.object?["error"]?.string == "invalid_client"
    }

    /// Makes the proof; throws `notSent`.
    private func proof(
        _ way: ClientAuthentication, _ audiences: Audiences
    ) async throws(ProviderFailure) -> Proof {
        let audience =
            switch assertion.audience {
            case .issuer: audiences.issuer
            case .tokenEndpoint: audiences.tokenEndpoint
            case .endpoint: audiences.called
            case .url(let text): text
            }
        switch way {
        // With a certificate the connection proves it, and says nothing of which client it is (RFC 8705 section 2).
        case .none, .tlsClientAuth, .selfSignedTLSClientAuth: return Proof(parameters: [("client_id", clientID)])
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

/// The way that each endpoint took last where its first was refused; as many entries as there are endpoints.
private final class AcceptedWays: Sendable {
    private let methods = Mutex<[ClientAuthenticator.Endpoint: String]>([:])

    /// Puts the way that was taken last first.
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

/// Writes the parameters of a token call as the client's settings say.
enum ParameterBody {
    /// Returns body and media type; omissions and renamings go by the standard names.
    ///
    /// Of a target nothing is left out, and what is configured for every call gives way to it: without a parameter of its own
    /// the token would be another API's.
    static func make(
        _ parameters: [(name: String, value: String)], _ settings: TokenRequestSettings,
        target: [(name: String, value: String)] = []
    ) -> (bytes: [UInt8], type: String) {
        let kept = parameters.filter { !settings.omit.contains($0.name) } + target
        let named = Set(target.map { settings.rename[$0.name] ?? $0.name })
        let own = kept.map { (name: settings.rename[$0.name] ?? $0.name, value: $0.value) }
        let sent = own + settings.parameters.filter { !named.contains($0.name) }
        switch settings.encoding {
        case .form: return (Array(FormPairs.encode(sent).utf8), "application/x-www-form-urlencoded")
        case .json:
            return (json(sent, lists: own.map(\.name)), "application/json")
        }
    }
}

extension ParameterBody {
    /// Writes an object; a name that comes more than once among those of the call itself is one member, a list.
    private static func json(_ pairs: [(name: String, value: String)], lists names: [String]) -> [UInt8] {
        let repeated = Set(names.filter { name in names.count { $0 == name } > 1 })
        var written: Set<String> = []
        var writer = JSONWriter()
        writer.object { writer in
            for pair in pairs {
                guard repeated.contains(pair.name) else {
                    writer.member(pair.name, pair.value)
                    continue
                }
                guard written.insert(pair.name).inserted else { continue }
                writer.name(pair.name)
                writer.array { writer in
                    for other in pairs where other.name == pair.name { writer.string(other.value) }
                }
            }
        }
        return writer.bytes
    }
}

/// Encodes standard base64 (RFC 4648 section 4), for HTTP Basic.
enum Base64 {
    static func encode(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }
}
