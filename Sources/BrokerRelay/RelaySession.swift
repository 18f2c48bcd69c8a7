package import Broker

/// What the relay needs to know of the session that calls.
package struct RelaySession: Sendable {
    package let provider: ProviderName
    package let client: ClientName
    /// Whose session it is, at the provider.
    package let subject: String
    package let handle: SessionHandle

    package init(provider: ProviderName, client: ClientName, subject: String, handle: SessionHandle) {
        self.provider = provider
        self.client = client
        self.subject = subject
        self.handle = handle
    }
}
