import BrokerTestSupport
import BrokerVault
import Testing

@testable import Broker

/// A registration, between the app's attempts to complete it with attributes (flow E).
@Suite(.timeLimit(.minutes(2))) struct RegistrationTests {
    @Test(
        "The owner of a registration's exchange died → each retry gets `login_required` without a call, even with new attributes"
    )
    func ownerDied() async throws {
        let registrar = ScriptedRegistrar()
        let broker = try TestBroker(also: [registrar])
        let loginToken = Secret(String(repeating: "L", count: 43))
        func input(_ name: String) -> FinishRegistrationInput {
            FinishRegistrationInput(
                provider: registrar.profile.name, client: nil, stateKey: Secret("key-1"),
                attributes: [(name: "first-name", value: .string(name))], loginToken: loginToken,
                presentedSession: nil)
        }
        func finish(_ name: String) async -> BrokerProblem? {
            await problem { try await broker.useCases.finishRegistration.finish(input(name)) }
        }
        let key = broker.vault.index(.stateKey, ["zephr", "key-1"])
        let now = broker.clock.now
        let secrets = RegistrationSecrets(
            provider: registrar.profile.name, client: ClientName(unchecked: "ios"), stateKey: Secret("key-1"),
            identifier: nil, fields: [], device: nil)
        try await broker.store.insertRegistration(
            RegistrationRow(
                key: key, loginTokenDigest: broker.vault.digest(loginToken), createdAt: now,
                expiresAt: now.advanced(by: .seconds(900)),
                sealed: try broker.vault.seal(secrets.record, as: .registration, row: key)))
        let dead = ExchangeRow(
            key: broker.vault.digest(Secret("dead")), proof: broker.vault.digest(loginToken), salt: [], keyID: "k",
            claim: ClaimID(random: []), claimFor: .seconds(25), createdAt: now, gate: .registration(key))
        guard case .claimed = try await broker.store.claimExchange(dead, maximumAttempts: 3) else {
            return #expect(Bool(false))
        }
        #expect(await finish("Ana")?.code == .providerUnavailable)
        broker.clock.advance(.seconds(26))
        let lost = await finish("Ana")
        #expect(lost?.code == .loginRequired && lost?.login != nil)
        #expect(await finish("Anna")?.code == .loginRequired)
        #expect(registrar.registers == 0)
    }
}
