import Broker
import BrokerTestSupport
import Sandbox
import Testing

@testable import BrokerProviders

/// The broker's result for each fault of the sandbox that no other suite tests.
@Suite("Sign-ins with further faults of the sandbox", .timeLimit(.minutes(2)))
struct SandboxFaultTests {
    private func login(
        _ faults: [Fault], scope: [String] = ["openid", "email"], settings change: JSON = [:]
    ) async throws -> Result<TokenSet, ProviderFailure> {
        try await withSandbox { sandbox in
            for fault in faults { try sandbox.control.place(fault) }
            sandbox.control.set(settings: change, of: "oidc")
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            return try await Support.with(settings) { client in
                var flow = Flow(provider: try #require(client as? any CodeExchanging))
                flow.scope = scope
                do { return .success(try await flow.run().tokens) } catch let failure as ProviderFailure {
                    return .failure(failure)
                }
            }
        }
    }

    @Test(
        "An id_token whose exp is beyond any calendar → identity_rejected",
        arguments: ["1e300", "253402300800", "9223372036854775808"]
    )
    func hugeExpiry(_ text: String) async throws {
        let result = try await login([Fault(provider: "oidc", "exp-huge", value: .string(text))])
        guard case .failure(.identityRejected) = result else { return #expect(Bool(false), "\(result)") }
    }

    @Test("An id_token without kid, and exactly one key that fits → accepted")
    func kidAbsent() async throws {
        let result = try await login([Fault(provider: "oidc", "kid-absent")])
        #expect(throws: Never.self) { try result.get() }
    }

    @Test("A token answer without a refresh token, or with the scope as an array → parsed")
    func tokenAnswer() async throws {
        #expect(try await login([Fault(provider: "oidc", "no-refresh-token")]).get().refreshToken == nil)
        #expect(try await login([Fault(provider: "oidc", "scope-array")]).get().scope == ["openid", "email"])
    }

    @Test(
        "A token answer's expires_in is a number → the token has this lifetime; is a word → no known lifetime",
        arguments: [(JSON.int(120), true), (.string("soon"), false)])
    func lifetime(_ value: JSON, _ isKnown: Bool) async throws {
        let tokens = try await login([Fault(provider: "oidc", "expires-in", value: value)]).get()
        let rest = tokens.expiresAt.map { $0.since(Support.clock.now()) }
        #expect((rest.map { (.seconds(60) ... .seconds(120)).contains($0) } ?? false) == isKnown)
    }

    @Test("The token answer of a sign-in comes 300 ms late → the sign-in succeeds")
    func slowAfter() async throws {
        let fault = Fault(provider: "oidc", endpoint: "token", "slow-after", delayMilliseconds: 300)
        let result = try await login([fault])
        #expect(throws: Never.self) { try result.get() }
    }

    @Test("The provider signs an id_token with a new key, and still publishes the old key → the sign-in succeeds")
    func rotationKeeps() async throws {
        let result = try await login([Fault(provider: "oidc", "signing-key-rotation-keep")])
        #expect(throws: Never.self) { try result.get() }
    }

    @Test(
        "The metadata promises `iss` in callbacks → iss is required; makes no such promise → optional",
        arguments: [("", true), ("discovery-no-iss-parameter", false)])
    func promise(_ fault: String, _ demanded: Bool) async throws {
        try await withSandbox { sandbox in
            if !fault.isEmpty { try sandbox.control.place(Fault(provider: "oidc", fault)) }
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try await Support.with(settings) { client in
                let expected = try await #require(client as? any CodeExchanging).issuerExpectation()
                #expect(expected.issuer == sandbox.baseURL + "/oidc" && expected.demanded == demanded)
            }
        }
    }
}
