import Broker
import Synchronization
import Testing

@testable import BrokerProviders

/// The report of `coatcheck check --online` about a provider's metadata.
@Suite("The probe of a provider", .timeLimit(.minutes(2)))
struct ProviderProbeTests {
    /// Probes a provider whose metadata lists these authentication methods, and returns the subjects of the reported
    /// faults.
    private func faults(_ authentication: ClientAuthentication, _ listed: String) async throws -> [String] {
        let base = Mutex("")
        let server = try RawServer { request in
            let base = base.withLock { $0 }
            guard request.target.contains("well-known") else { return .http(400, [], []) }
            return .json(
                #"{"issuer":"\#(base)","authorization_endpoint":"\#(base)/authorize","token_endpoint":"\#(base)/token","token_endpoint_auth_methods_supported":\#(listed)}"#
            )
        }
        base.withLock { $0 = server.base }
        let settings = ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oauth2, issuer: server.base,
            clients: [
                ClientSettings(
                    profile: Support.profile(), clientID: "cid-1", authentication: authentication,
                    wire: WireSettings(identity: IdentitySettings(url: EndpointURL(server.base + "/me"))))
            ])
        return try await Support.with(settings) { client in
            try await #require(client as? any ProviderInspection).probe().filter { !$0.isGood }.map(\.subject)
        }
    }

    @Test("The metadata does not list the client's authentication method → the probe reports a fault")
    func unlisted() async throws {
        for listed in [#"["client_secret_basic"]"#, #"["none"]"#, "[]"] {
            #expect(try await faults(.clientSecretPost(Secret("s")), listed) == ["method"], "\(listed)")
        }
    }

    @Test(
        "A public client, and metadata with any list of authentication methods → no fault (Glewlwyd, LemonLDAP::NG, idpyoidc)"
    )
    func publicClient() async throws {
        for listed in [#"["client_secret_post","client_secret_basic"]"#, #"["none"]"#, "[]"] {
            #expect(try await faults(.none, listed) == [], "\(listed)")
        }
    }
}
