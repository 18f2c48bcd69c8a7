import Broker
import BrokerProviders

/// Checks that each redirect URI belongs to one client of one provider (SEC-09), and checks its query and scheme.
///
/// If two providers shared a redirect URI, an answer of one provider could be mistaken for an answer of the other.
enum RedirectRules {
    /// The parameters in answers of OAuth, OpenID, Zephr, Clover and Apple.
    ///
    /// The query of a registered redirect URI must not use these names.
    private static let answerNames: Set<String> = [
        "code", "state", "iss", "error", "error_description", "error_uri", "error_code", "error_message",
        "error_reason", "denied", "scope", "session_state", "id_token", "access_token", "refresh_token", "token_type",
        "expires_in", "response", "status", "session_id", "state_key", "identifier", "message", "action",
        "tracking_id", "merchant_id", "employee_id", "client_id", "user", "handoff", "login_id", "authuser", "hd",
        "prompt",
    ]

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
                    if let owner = owners[uri.registration], owner.provider != provider.name {
                        report("holds a redirect URI that `\(owner.provider)` has too: each provider needs its own")
                    } else if let owner = owners[uri.registration], owner.client != profile.name {
                        report("holds a redirect URI that client `\(owner.client)` has too: each client needs its own")
                    }
                    owners[uri.registration] = owners[uri.registration] ?? (provider.name, profile.name)
                    let taken = Self.answerNames.union(profile.callbackParameters)
                    if let query = uri.query, let pairs = try? FormPairs(parsing: query),
                        let name = pairs.pairs.map(\.name).first(where: taken.contains)
                    {
                        report("holds a redirect URI whose query names `\(name)`, which is a name of the answer's")
                    }
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
