package import Broker

/// The opening or closing of a provider's breaker.
package struct BreakerTurn: Sendable, Equatable {
    package let provider: ProviderName
    /// Whether this is the breaker of the provider's log-out page.
    package let isLogOut: Bool
    package let isOpen: Bool

    package init(provider: ProviderName, isLogOut: Bool = false, isOpen: Bool) {
        self.provider = provider
        self.isLogOut = isLogOut
        self.isOpen = isOpen
    }
}
