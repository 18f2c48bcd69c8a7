/// The configured providers by name.
package struct ProviderDirectory: Sendable {
    /// All providers, in the configuration's order.
    package let all: [any ProviderClient]
    /// The registered redirect URIs with a query part, the longest first.
    package let redirectsWithQuery: [String]
    private let byName: [ProviderName: any ProviderClient]
    private let byRedirect: [String: (provider: ProviderName, client: ClientName)]
    /// The names of each provider's clients, for checking each use of a session.
    ///
    /// Using the whole profile would be slower, because copying a struct retains and releases each reference in it.
    private let clientNames: [ProviderName: [ClientName]]

    package init(_ clients: [any ProviderClient]) {
        all = clients
        byName = Dictionary(clients.map { ($0.profile.name, $0) }, uniquingKeysWith: { first, _ in first })
        clientNames = byName.mapValues { $0.profile.clients.map(\.name) }
        var redirects: [String: (provider: ProviderName, client: ClientName)] = [:]
        for provider in clients.map(\.profile) {
            for client in provider.clients {
                for uri in client.redirectURIs where redirects[uri.registration] == nil {
                    redirects[uri.registration] = (provider.name, client.name)
                }
            }
        }
        byRedirect = redirects
        redirectsWithQuery = redirects.keys.filter { $0.contains("?") }.sorted { $0.utf8.count > $1.utf8.count }
    }

    /// Returns the provider of a name, or nil.
    package subscript(_ name: ProviderName) -> (any ProviderClient)? { byName[name] }

    /// Returns whether the provider and its client are configured.
    package func has(_ provider: ProviderName, _ client: ClientName) -> Bool {
        clientNames[provider]?.contains(client) ?? false
    }

    /// Returns the client that registered a redirect URI; the configuration allows only one client for each.
    package func owner(ofRedirect target: String) -> (provider: ProviderName, client: ClientName)? {
        // Most texts already have the normalized spelling, so look up the text itself first.
        byRedirect[target] ?? RedirectURI(registered: target).flatMap { byRedirect[$0.registration] }
    }
}
