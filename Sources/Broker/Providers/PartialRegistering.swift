/// A provider with sessions of its own, and with registrations that the app completes with a state key (Zephr, flow E).
package protocol PartialRegistering: ProviderClient {
    /// Returns the user of a Zephr session (`GET /blaize/account`); throws `rejected` if the session is unknown.
    func account(of session: Secret, by deadline: Duration) async throws(ProviderFailure) -> ProviderIdentity

    /// Completes a registration with one call, which is never repeated.
    func register(
        _ request: RegistrationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> RegistrationOutcome

    /// Returns the attributes that a registration needs, from the configuration or the provider's schema.
    func registrationFields() async throws(ProviderFailure) -> [RegistrationField]

    /// The assumed lifetime of a Zephr session whose own end is unknown.
    var sessionLifetime: Duration { get }

    /// Ends a Zephr session.
    func logOut(_ session: Secret, by deadline: Duration) async throws(ProviderFailure)
}
