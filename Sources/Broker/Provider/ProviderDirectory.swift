/// The configured providers by name.
package struct ProviderDirectory: Sendable {
    /// All of them, in the configuration's order.
    package let all: [any ProviderClient]
    /// The registered redirect URIs with a query part, the longest first.
    package let redirectsWithQuery: [String]
    private let byName: [ProviderName: any ProviderClient]
    private let byRedirect: [String: (provider: ProviderName, client: ClientName)]

    package init(_ clients: [any ProviderClient]) {
        all = clients
        byName = Dictionary(clients.map { ($0.profile.name, $0) }, uniquingKeysWith: { first, _ in first })
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
        byName[provider]?.profile.client(client) != nil
    }

    /// Returns who registered a redirect URI; the configuration lets only one client have each.
    package func owner(ofRedirect target: String) -> (provider: ProviderName, client: ClientName)? {
        byRedirect[RedirectURI(registered: target)?.registration ?? target]
    }
}
