import BrokerTestSupport
import Testing

@testable import Broker

/// Clients that require `iss` in every callback, also in a callback with an error (RFC 9207).
@Suite(.timeLimit(.minutes(2))) struct DemandedIssuerTests {
    /// Returns the problem code of a callback; nil if a session begins.
    ///
    /// The provider's metadata does not promise `iss`.
    private func outcome(_ query: String, issuer: String? = "https://as.example", demands: Bool = true) async throws
        -> (code: String?, broker: TestBroker)
    {
        var client = ClientProfile(
            name: ClientName(unchecked: "ios"), redirectURIs: [RedirectURI(TestBroker.redirect)].compactMap { $0 },
            scope: ["openid"])
        client.demandsIssuer = demands
        var script = ScriptedProvider.Script()
        script.issuer = IssuerExpectation(issuer: issuer, demanded: false)
        let broker = try TestBroker(clients: [client], script: script)
        let login = try await broker.start()
        let url = "\(TestBroker.redirect)?state=\(login.state.reveal())&\(query)"
        return (await problem { try await broker.forward(url, login.loginToken) }?.code.rawValue, broker)
    }

    @Test(
        "The client demands `iss`, and a callback's `iss` is missing or wrong → `issuer_mismatch`, even for an error callback",
        arguments: [
            "code=c1", "error=access_denied", "error=server_error", "code=c1&iss=",
            "code=c1&iss=https%3A%2F%2Fas.example%2F",
            "code=c1&iss=https%3A%2F%2FAS.example", "error=access_denied&iss=https%3A%2F%2Fevil.example",
        ])
    func refused(_ query: String) async throws {
        let (code, broker) = try await outcome(query)
        #expect(code == "issuer_mismatch")
        #expect(broker.provider.grants == 0 && broker.burned == 0)
    }

    @Test("The client demands `iss`, and the provider's issuer is a template or unknown → every `iss` is refused")
    func nothingToCompare() async throws {
        for issuer in ["https://as.example/{tenant}", nil] {
            let (code, _) = try await outcome("code=c1&iss=https%3A%2F%2Fas.example%2Fa", issuer: issuer)
            #expect(code == "issuer_mismatch")
        }
    }

    @Test(
        "A callback's `iss` equals the issuer, or is missing at a client for which `iss` is optional → the callback is accepted"
    )
    func accepted() async throws {
        #expect(try await outcome("code=c1&iss=https%3A%2F%2Fas.example").code == nil)
        #expect(try await outcome("error=access_denied&iss=https%3A%2F%2Fas.example").code == "access_denied")
        #expect(try await outcome("code=c1", demands: false).code == nil)
        #expect(try await outcome("error=access_denied", demands: false).code == "access_denied")
    }
}
