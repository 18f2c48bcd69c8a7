package import Broker

/// What the relay needs to know of the session that calls.
package struct RelaySession: Sendable {
    package let provider: ProviderName
    package let client: ClientName

    package init(provider: ProviderName, client: ClientName) {
        self.provider = provider
        self.client = client
    }
}
