/// The settings of a provider that the module `Broker` uses.
///
/// The module `BrokerProviders` makes the provider's protocol calls.
package struct ProviderProfile: Sendable {
    package let name: ProviderName
    package let kind: ProviderKind
    /// The provider's name for an app's button.
    package let displayName: String
    /// The namespace of the provider's subjects: the issuer, or else the provider's name (SEC-33).
    package let issuer: String
    /// The rule for `iss` in this provider's callbacks, as a text or a template; nil if the provider publishes no issuer.
    ///
    /// The namespace of subjects is `issuer`, and is independent of this rule.
    package let callbackIssuer: String?
    /// The sessions that a session's owner may list and end.
    package enum Ownership: String, Sendable {
        /// All sessions of the same subject.
        case subject
        /// Only the session itself, because the subject is a shop instead of a person.
        case device
    }

    /// The setting `session: {own}`.
    package let own: Ownership
    /// The clients, in the configuration's order; at least one.
    package let clients: [ClientProfile]
    /// The setting `step_up`: the demands on a sign-in that the provider can fulfil.
    package let stepUp: StepUpCapability

    package init(
        name: ProviderName, kind: ProviderKind, displayName: String, issuer: String, callbackIssuer: String? = nil,
        own: Ownership = .subject, clients: [ClientProfile], stepUp: StepUpCapability = .nothing
    ) {
        self.stepUp = stepUp
        self.name = name
        self.kind = kind
        self.displayName = displayName
        self.issuer = issuer
        self.callbackIssuer = callbackIssuer
        self.own = own
        self.clients = clients
    }

    /// Returns the client of a name, or nil.
    package func client(_ name: ClientName) -> ClientProfile? { clients.first { $0.name == name } }
}
