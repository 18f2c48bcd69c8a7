import Broker
import BrokerProviders

/// Checks that a redirect URI belongs to one provider (SEC-09): where two share one, an answer of the one can be taken for
/// the other's.
enum RedirectRules {
    static func check(_ providers: [ProviderSection], _ context: ConfigContext) {
        var owners: [String: (provider: ProviderName, client: ClientName)] = [:]
        for provider in providers {
            for client in provider.clients {
                let profile = client.settings.profile
                func report(_ message: String, _ severity: ConfigProblem.Severity = .error) {
                    context.report(
                        message, path: "\(client.location.path).redirect_uris", line: client.location.redirectLine,
                        severity: severity)
                }
                for uri in profile.redirectURIs {
                    if let owner = owners[uri.text], owner.provider != provider.name {
                        report("holds a redirect URI that `\(owner.provider)` has too: each provider needs its own")
                    } else if let owner = owners[uri.text], owner.client != profile.name {
                        report("holds a redirect URI that client `\(owner.client)` has too: each client needs its own")
                    }
                    owners[uri.text] = owners[uri.text] ?? (provider.name, profile.name)
                    if uri.scheme != "https", uri.scheme != "http", !uri.scheme.contains("."), provider.kind != .clever
                    {
                        report(
                            "holds a scheme without a dot, which another app may claim: take one in reverse-domain form, "
                                + "or an https link", .warning)
                    }
                }
            }
        }
    }
}
