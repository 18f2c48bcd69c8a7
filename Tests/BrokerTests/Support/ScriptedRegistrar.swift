import Synchronization

@testable import Broker

/// A Zephr whose answers the test chooses.
///
/// The provider records the calls that it gets.
final class ScriptedRegistrar: PartialRegistering, Sendable {
    struct Script: Sendable {
        var outcome: RegistrationOutcome = .stateInvalid
        var registers = 0
        var fieldsAsked = 0
        /// The failures of the next calls: `account` for calls that ask for the user's account, `fields` for calls that ask for
        /// the missing attributes.
        var account: [ProviderFailure] = []
        var fields: [ProviderFailure] = []
    }

    static let redirect = "com.example.zephr:/cb"

    let profile = ProviderProfile(
        name: ProviderName(unchecked: "zephr"), kind: .zephr, displayName: "Zephr", issuer: "zephr",
        clients: [
            ClientProfile(
                name: ClientName(unchecked: "ios"), login: .both,
                redirectURIs: [RedirectURI(ScriptedRegistrar.redirect)].compactMap { $0 }, socialProviders: ["google"])
        ])
    let script = Mutex(Script())

    let sessionLifetime = Duration.seconds(30 * 86_400)
    var registers: Int { script.withLock { $0.registers } }

    func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart {
        AuthorizationStart(
            url: Secret("https://news.example/login"), issuer: IssuerExpectation(issuer: nil, demanded: false))
    }

    func account(of session: Secret, by deadline: Duration) async throws(ProviderFailure) -> ProviderIdentity {
        if let failure = script.withLock({ $0.account.isEmpty ? nil : $0.account.removeFirst() }) { throw failure }
        return ProviderIdentity(subject: "user-1", claims: [])
    }

    func register(
        _ request: RegistrationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> RegistrationOutcome {
        script.withLock { script in
            script.registers += 1
            return script.outcome
        }
    }

    func registrationFields() async throws(ProviderFailure) -> [RegistrationField] {
        let failure = script.withLock { script -> ProviderFailure? in
            script.fieldsAsked += 1
            return script.fields.isEmpty ? nil : script.fields.removeFirst()
        }
        if let failure { throw failure }
        return [RegistrationField(name: "first-name", type: .string, required: true)]
    }

    func logOut(_ session: Secret, by deadline: Duration) async throws(ProviderFailure) {}
}
