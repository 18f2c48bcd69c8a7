/// What the domain knows of a configured provider.
///
/// How it talks on the wire is `BrokerProviders`' matter.
package struct ProviderProfile: Sendable {
    package let name: ProviderName
    package let kind: ProviderKind
    /// What an app may write on its button.
    package let displayName: String
    /// The subject's namespace: the issuer where there is one, else the provider's name (SEC-33).
    package let issuer: String
    /// What `iss` in this provider's callbacks has to be: a text or a template; nil where the provider publishes none.
    ///
    /// It never enters the subject's namespace.
    package let callbackIssuer: String?
    /// Whose sessions a session may list and end.
    package enum Ownership: String, Sendable {
        /// All of its subject's.
        case subject
        /// Itself alone: the subject is a shop, not a person.
        case device
    }

    /// `session: {own}`.
    package let own: Ownership
    /// The clients, in the configuration's order; at least one.
    package let clients: [ClientProfile]

    package init(
        name: ProviderName, kind: ProviderKind, displayName: String, issuer: String, callbackIssuer: String? = nil,
        own: Ownership = .subject, clients: [ClientProfile]
    ) {
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
