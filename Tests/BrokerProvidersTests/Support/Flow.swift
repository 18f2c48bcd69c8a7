import Broker
import Crypto
import Testing

@testable import BrokerProviders

/// Plays a whole login through the ports: start, browser, redeem, identify.
struct Flow {
    let provider: any CodeExchanging
    var nonce: String? = "nonce-0123456789abcdef"
    var state = "state-0123456789abcdef"
    var verifier: String? = String(repeating: "v", count: 43)
    var user = "ana"
    var scope = ["openid", "email"]
    var parameters: [(name: String, value: String)] = []
    /// The maker of proofs for the key that the tokens must be bound to.
    var proof: ProofMaker?
    /// Whether the token is new, so that a refused identity call may be repeated one time.
    var isNew = false

    func start() async throws -> AuthorizationStart {
        try await provider.startAuthorization(
            AuthorizationRequest(
                client: Support.ios, redirectURI: try #require(provider.profile.clients.first?.redirectURIs.first),
                state: Secret(state), nonce: nonce.map { Secret($0) },
                codeChallenge: verifier.map { Base64URL.encode(SHA256.hash(data: Array($0.utf8))) }, scope: scope,
                parameters: parameters, proof: proof), by: Support.deadline)
    }

    func callback() async throws -> FormPairs { try await Browser.callback(try await start().url, user: user) }

    func redeem(_ callback: FormPairs) async throws -> TokenSet {
        let code = try #require(callback["code"])
        return try await provider.redeem(
            CodeGrant(
                client: Support.ios, code: Secret(code),
                redirect: .uri(try #require(provider.profile.clients.first?.redirectURIs.first).text),
                verifier: verifier.map { Secret($0) }, idempotencyKey: String(repeating: "k", count: 43), proof: proof),
            by: Support.deadline)
    }

    func identify(_ tokens: TokenSet, _ callback: FormPairs) async throws -> ProviderIdentity {
        var context = IdentityContext(
            client: Support.ios, nonce: nonce.map { .exactly(Secret($0)) } ?? .none, callback: callback.pairs,
            requestedScope: scope)
        context.proof = proof
        if isNew { context.secondRead = SecondRead() }
        return try await provider.identify(tokens, context, by: Support.deadline)
    }

    /// The whole login.
    func run() async throws -> (tokens: TokenSet, identity: ProviderIdentity) {
        let callback = try await callback()
        let tokens = try await redeem(callback)
        return (tokens, try await identify(tokens, callback))
    }
}
