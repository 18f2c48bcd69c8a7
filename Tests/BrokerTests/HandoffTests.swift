import Synchronization
import Testing

@testable import Broker

/// The hosted callback's one-time handoff (flow C).
@Suite struct HandoffTests {
    private static let callback = "https://auth.example.com/callback/as"

    /// A broker with a hosted client, and the handoff that its login's return gave.
    private func handedOff() async throws -> (broker: TestBroker, login: StartedLogin, handoff: Secret) {
        let broker = try TestBroker(clients: [
            ClientProfile(
                name: ClientName(unchecked: "web"), redirectURIs: [RedirectURI(Self.callback)].compactMap { $0 },
                scope: ["openid"], hostedCallbackTo: "https://app.example.com/oauth")
        ])
        let login = try await broker.start("web")
        return (broker, login, try await receive(broker, login))
    }

    private func receive(_ broker: TestBroker, _ login: StartedLogin) async throws -> Secret {
        let parameters = try FormPairs(
            parsing: "code=code-1&state=\(login.state.reveal())&iss=https%3A%2F%2Fas.example")
        let link = try await broker.useCases.hostedCallback.receive(
            provider: ProviderName(unchecked: "as"), parameters: parameters)
        let query = try #require(link.reveal().split(separator: "?").last)
        return Secret(try #require(FormPairs(parsing: String(query))["handoff"]))
    }

    private func redeem(_ broker: TestBroker, _ handoff: Secret, _ loginToken: Secret?) async throws -> SignedIn {
        var input = ForwardCodeInput()
        input.handoff = handoff
        input.loginToken = loginToken
        return try await broker.forward(input)
    }

    @Test("It lives for sixty seconds (SEC-91)", arguments: [(59, nil), (60, ProblemCode.handoffExpired)])
    func lifetime(_ seconds: Int, _ expected: ProblemCode?) async throws {
        let (broker, login, handoff) = try await handedOff()
        broker.clock.advance(.seconds(seconds))
        #expect(await problem { try await redeem(broker, handoff, login.loginToken) }?.code == expected)
        #expect(broker.provider.grants == (expected == nil ? 1 : 0))
    }

    @Test("Its starter redeems it once, and gets the same session again; another burns the login (SEC-91)")
    func starter() async throws {
        let (broker, login, handoff) = try await handedOff()
        let first = try await redeem(broker, handoff, login.loginToken)
        broker.clock.advance(.seconds(120))
        let again = try await redeem(broker, handoff, login.loginToken)
        #expect(first.session.handle == again.session.handle && broker.provider.grants == 1)
        #expect(await problem { try await redeem(broker, handoff, Secret("another")) } != nil)

        let (other, otherLogin, stolen) = try await handedOff()
        let thief = try await other.start("web")
        #expect(await problem { try await redeem(other, stolen, thief.loginToken) }?.code == .loginNotYours)
        #expect(await problem { try await redeem(other, stolen, otherLogin.loginToken) } != nil)
        #expect(other.provider.grants == 0)
    }
}
