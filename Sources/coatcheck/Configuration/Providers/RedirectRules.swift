import Broker

/// Checks that a redirect URI belongs to one provider (SEC-09): where two share one, an answer of the one can be taken for
/// the other's.
enum RedirectRules {
    static func check(_ providers: [ProviderSection], _ context: ConfigContext) {
        var owners: [String: (provider: ProviderName, client: ClientName, id: String)] = [:]
        for provider in providers {
            for client in provider.clients {
                let path = "\(client.section.path).redirect_uris"
                for uri in client.redirectURIs {
                    let key = uri.text
                    if let owner = owners[key] {
                        if owner.provider != provider.name {
                            context.report(
                                "holds a redirect URI that `\(owner.provider)` has too: each provider needs its own",
                                path: path, line: client.section.redirectLine)
                        } else if owner.id != client.clientID {
                            context.report(
                                "holds a redirect URI that client `\(owner.client)` has too, with another `client_id`",
                                path: path, line: client.section.redirectLine)
                        }
                    }
                    owners[key] = owners[key] ?? (provider.name, client.name, client.clientID)
                    if uri.host == nil || !["http", "https"].contains(uri.scheme), !uri.scheme.contains("."),
                        provider.kind != .clever, !["http", "https"].contains(uri.scheme)
                    {
                        context.report(
                            "holds a scheme without a dot: another app may claim it; take one in reverse-domain form, or an "
                                + "https link", path: path, line: client.section.redirectLine, weight: .warning)
                    }
                }
            }
        }
    }
}
