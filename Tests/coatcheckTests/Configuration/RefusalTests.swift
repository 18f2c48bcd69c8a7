import Testing

@testable import coatcheck

/// A faulty file and the expected refusal.
struct Refusal: Sendable, CustomTestStringConvertible {
    let name: String
    /// The text to replace in the minimal file.
    let replacing: String
    let with: String
    /// The path and the words that the refusal has to contain.
    let path: String
    let words: String

    init(_ name: String, _ replacing: String, _ with: String, at path: String, says words: String) {
        self.name = name
        self.replacing = replacing
        self.with = with
        self.path = path
        self.words = words
    }

    var testDescription: String { name }
    var text: String { ConfigurationFixture.minimal.replacingFirst(replacing, with: with) }
}

extension String {
    func replacingFirst(_ part: String, with other: String) -> String {
        guard let range = self.firstRange(of: part) else { return self }
        return String(self[..<range.lowerBound]) + other + String(self[range.upperBound...])
    }
}

@Suite("Refused configurations", .timeLimit(.minutes(2)))
struct RefusalTests {
    static let url = "public_url: https://auth.example.com"
    static let client = "client_id: mobile-app"
    static let issuer = "issuer: https://id.example.com"
    static let redirect = "com.example.app:/oauth2redirect"
    static let auth = "auth: none"
    static let providers = "providers:\n"

    static func added(_ section: String) -> String { section + "\n" + providers }

    static let server: [Refusal] = [
        Refusal("no public URL", url, "hosts: []", at: "server", says: "needs `public_url`"),
        Refusal(
            "a public URL with a path", url, "public_url: https://auth.example.com/x", at: "server.public_url",
            says: "without a path"),
        Refusal(
            "a public URL with a closing slash", url, "public_url: https://auth.example.com/", at: "server.public_url",
            says: "without a path"),
        Refusal(
            "a public URL with a user", url, "public_url: https://a:b@auth.example.com", at: "server.public_url",
            says: "https://"),
        Refusal(
            "a public URL without a scheme", url, "public_url: auth.example.com", at: "server.public_url",
            says: "https://"),
        Refusal(
            "a misspelt key", url, url + "\n  lisen: 127.0.0.1:80", at: "server.lisen", says: "did you mean `listen`"),
        Refusal("an unknown section", providers, added("wheels: {}"), at: "wheels", says: "is not a key of this file"),
        Refusal(
            "a listen address without a port", url, url + "\n  listen: 127.0.0.1", at: "server.listen",
            says: "address and a port"),
        Refusal(
            "a listen address with a port above 65535", url, url + "\n  listen: 127.0.0.1:70000", at: "server.listen",
            says: "address and a port"),
        Refusal(
            "a listen address that is a list", url, url + "\n  listen: [a, b]", at: "server.listen",
            says: "single value"),
        Refusal("an empty value", url, url + "\n  listen:", at: "server.listen", says: "has no value"),
        Refusal(
            "a host with a path", url, url + "\n  hosts: [a.example.com/x]", at: "server.hosts", says: "host names"),
        Refusal(
            "a trusted proxy given by its name", url, url + "\n  trusted_proxies: [proxy.example.com]",
            at: "server.trusted_proxies", says: "IP addresses"),
        Refusal(
            "a translator prefix of another length than 96 bits", url, url + "\n  translators: [\"2001:db8:64::/64\"]",
            at: "server.translators", says: "96 bits"),
        Refusal(
            "a translator with bits beyond its prefix", url, url + "\n  translators: [\"2001:db8:64::1/96\"]",
            at: "server.translators", says: "96 bits"),
        Refusal(
            "a translator of IPv4", url, url + "\n  translators: [\"::ffff:0:0/96\"]",
            at: "server.translators", says: "96 bits"),
        Refusal(
            "a proxy range with bits beyond its prefix", url, url + "\n  trusted_proxies: [10.0.0.1/8]",
            at: "server.trusted_proxies", says: "IP addresses"),
        Refusal(
            "a proxy range with a long prefix", url, url + "\n  trusted_proxies: [10.0.0.0/33]",
            at: "server.trusted_proxies", says: "IP addresses"),
        Refusal(
            "a shutdown timeout of an hour", url, url + "\n  shutdown_timeout: 1h", at: "server.shutdown_timeout",
            says: "between `1s`".replacingOccurrence("`", "")),
        Refusal(
            "a word in place of a section", providers, added("limits: many"), at: "limits", says: "mapping of keys"),
        Refusal(
            "a `keep_alive` of four seconds", url, url + "\n  keep_alive: 4s",
            at: "server.keep_alive",
            says: "5s"),
        Refusal(
            "a `keep_alive` of over an hour", url, url + "\n  keep_alive: 61m", at: "server.keep_alive", says: "1h"
        ),
        Refusal(
            "a delay of minutes before the listener closes", url, url + "\n  drain_delay: 61s",
            at: "server.drain_delay",
            says: "between 0s and 1m"),
        Refusal(
            "a backends' listener without a port", url, url + "\n  backend_listen: 127.0.0.1",
            at: "server.backend_listen", says: "address and a port"),
        Refusal(
            "the backends' listener on the public port", url, url + "\n  backend_listen: 127.0.0.1:8080",
            at: "server.backend_listen", says: "public listener's address"),
        Refusal(
            "the backends' listener on the management port", url, url + "\n  backend_listen: 127.0.0.1:9090",
            at: "server.backend_listen", says: "management listener's address"),
        Refusal(
            "a management name that is a URL", providers, added("management: {hosts: [\"https://ops.example.com\"]}"),
            at: "management.hosts", says: "host names"),
        Refusal(
            "the management listener on the public port", providers, added("management: {listen: 127.0.0.1:8080}"),
            at: "management.listen", says: "public listener's address"),
        Refusal("no key file", "file: keys.json", "{}", at: "keys", says: ""),
        Refusal(
            "a key file that is not there", "file: keys.json", "file: nowhere.json", at: "keys.file",
            says: "cannot be read"),
        Refusal(
            "keys in a variable that is not set", "file: keys.json", "env: NOT_SET_ANYWHERE", at: "keys.env",
            says: "not set"),
        Refusal(
            "a key ring from two places", "file: keys.json", "file: keys.json\n  env: NOT_SET_ANYWHERE", at: "keys.env",
            says: "one place"),
        Refusal(
            "a key file that others may read (SEC-51)", "file: keys.json", "file: open-keys.json", at: "keys.file",
            says: "0600"),
        Refusal(
            "a store URL of another database than SQLite and PostgreSQL", providers,
            added("store: {url: \"mysql://db\"}"), at: "store.url",
            says: "sqlite:"),
        Refusal(
            "a PostgreSQL URL that libpq does not understand", providers,
            added("store: {url: \"postgresql://u@db/coatcheck?nonsense=1\"}"), at: "store.url", says: "libpq"),
        Refusal(
            "a pooler for SQLite", providers, added("store: {url: \"sqlite:x.db\", pooler: transaction}"),
            at: "store.pooler", says: "PostgreSQL"),
        Refusal(
            "a listening URL for SQLite", providers,
            added("store: {url: \"sqlite:x.db\", listen_url: \"postgresql://db/x\"}"), at: "store.listen_url",
            says: "PostgreSQL"),
        Refusal(
            "too few connections", providers, added("store: {url: \"postgresql://db/x\", connections: 2}"),
            at: "store.connections", says: "3"),
        Refusal(
            "a CA file without a certificate", providers, added("outbound: {ca_file: not-a-certificate.pem}"),
            at: "outbound.ca_file", says: "PEM certificate"),
        Refusal(
            "a CA file with a broken certificate", providers, added("outbound: {ca_file: broken-ca.pem}"),
            at: "outbound.ca_file", says: "PEM certificate"),
        Refusal(
            "a proxy over https", providers, added("outbound: {proxy: \"https://p:1\"}"), at: "outbound.proxy",
            says: "http://host:port"),
        Refusal("an unknown log level", providers, added("log: {level: loud}"), at: "log.level", says: "`info`"),
        Refusal(
            "`yes` in place of `true`", providers, added("log: {requests: yes}"), at: "log.requests",
            says: "`true` or `false`"),
        Refusal(
            "an admin token without permissions", providers,
            added(
                "management: {admin_tokens: [{name: ops, sha256: 3b1f0d7c5f0a3a9d4b8f6b2f6a8e1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d}]}"
            ), at: "management.admin_tokens[0]", says: "needs `may"),
        Refusal(
            "an admin token that is easy to guess (SEC-97)", providers,
            added(
                "management: {admin_tokens: [{name: ops, may: [read], sha256: 5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8}]}"
            ), at: "management.admin_tokens[0].sha256", says: "tries first"),
        Refusal(
            "an odd-length digest (SEC-110)", providers,
            added("management: {admin_tokens: [{name: ops, may: [read], sha256: 3b1}]}"),
            at: "management.admin_tokens[0].sha256", says: "64 hexadecimal"),
        Refusal(
            "an unknown permission", providers,
            added(
                "management: {admin_tokens: [{name: ops, may: [read, write], sha256: 3b1f0d7c5f0a3a9d4b8f6b2f6a8e1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d}]}"
            ), at: "management.admin_tokens[0].may", says: "`maintain`"),
    ]

    static let sessions: [Refusal] = [
        Refusal(
            "a cookie name without the prefix `__Host-` (SEC-37)", providers, added("session: {cookie: {name: sid}}"),
            at: "session.cookie.name", says: "__Host-"),
        Refusal(
            "a cookie name with a prefix, on plain http (SEC-37)", url,
            "public_url: http://127.0.0.1:8080\nsession: {cookie: {name: __Host-coatcheck}}", at: "session.cookie.name",
            says: "plain http"),
        Refusal(
            "SameSite none on plain http", url,
            "public_url: http://127.0.0.1:8080\nsession: {cookie: {same_site: none}}", at: "session.cookie.same_site",
            says: "plain http"),
        Refusal(
            "a cookie name with a space", providers, added("session: {cookie: {name: __Host-a b}}"),
            at: "session.cookie.name", says: "letters, digits"),
        Refusal(
            "an unknown SameSite", providers, added("session: {cookie: {same_site: loose}}"),
            at: "session.cookie.same_site", says: "`strict`"),
        Refusal(
            "an idle time longer than the absolute time", providers, added("session: {idle: 91d, absolute: 90d}"),
            at: "session.idle",
            says: "longer than absolute"),
        Refusal(
            "a session of two years (SEC-37)", providers, added("session: {absolute: 730d}"), at: "session.absolute",
            says: "400d"),
        Refusal(
            "a duration without a unit", providers, added("session: {idle: 30}"), at: "session.idle", says: "duration"),
        Refusal("a negative duration", providers, added("session: {idle: -30d}"), at: "session.idle", says: "duration"),
        Refusal(
            "a duration that overflows", providers, added("session: {idle: 99999999999999999d}"), at: "session.idle",
            says: "duration"),
        Refusal(
            "a cache time of a minute", providers, added("session: {cache: 60s}"), at: "session.cache",
            says: "at most `5s`"),
        Refusal(
            "an origin with a path", providers, added("session: {allowed_origins: [\"https://a.example.com/\"]}"),
            at: "session.allowed_origins", says: "origins"),
        Refusal(
            "an origin with a wildcard", providers, added("session: {allowed_origins: [\"https://*.example.com\"]}"),
            at: "session.allowed_origins", says: "origins"),
        Refusal(
            "the origin `null`", providers, added("session: {allowed_origins: [\"null\"]}"),
            at: "session.allowed_origins", says: "`null`"),
        Refusal(
            "an origin with the scheme `file`", providers, added("session: {allowed_origins: [\"file://localhost\"]}"),
            at: "session.allowed_origins", says: "`file://localhost`"),
        Refusal(
            "an app shell's origin without a host", providers, added("session: {allowed_origins: [\"capacitor://\"]}"),
            at: "session.allowed_origins", says: "a scheme and a host"),
        Refusal(
            "an app shell's origin with a wildcard", providers,
            added("session: {allowed_origins: [\"chrome-extension://*\"]}"),
            at: "session.allowed_origins", says: "a scheme and a host"),
        Refusal("a size without a unit", providers, added("limits: {body: 65536}"), at: "limits.body", says: "size"),
        Refusal("a body limit of 2 MiB", providers, added("limits: {body: 2MiB}"), at: "limits.body", says: "between"),
        Refusal(
            "a limit of zero", providers, added("limits: {logins_per_minute: 0}"), at: "limits.logins_per_minute",
            says: "whole number"),
        Refusal(
            "a limit with a fraction", providers, added("limits: {logins_per_minute: 1.5}"),
            at: "limits.logins_per_minute", says: "whole number"),
    ]

    static let providerFaults: [Refusal] = [
        Refusal("no provider", "  example:\n", "  {}\n#", at: "", says: ""),
        Refusal("an unknown kind", "kind: oidc", "kind: saml", at: "providers.example.kind", says: "`oidc`"),
        Refusal(
            "no kind", "kind: oidc\n", "display_name: x\n", at: "providers.example", says: "needs `kind` or `preset`"),
        Refusal(
            "a preset of another kind", "kind: oidc", "kind: oidc\n    preset: github", at: "providers.example.kind",
            says: "contradicts"),
        Refusal("an unknown preset", "kind: oidc", "preset: myspace", at: "providers.example.preset", says: "`google`"),
        Refusal("no issuer", issuer, "display_name: x", at: "providers.example", says: "needs `issuer`"),
        Refusal(
            "an issuer over plain http (SEC-111)", issuer, "issuer: http://id.example.com",
            at: "providers.example.issuer",
            says: "https"),
        Refusal(
            "an issuer with a query", issuer, "issuer: https://id.example.com?x=1", at: "providers.example.issuer",
            says: "query"),
        Refusal(
            "a setting of another kind of provider", issuer, issuer + "\n    site_url: https://x.example.com",
            at: "providers.example.site_url", says: "not a key"),
        Refusal(
            "a provider's name with a space", "  example:", "  \"my provider\":", at: "providers.my provider",
            says: "name"),
        Refusal(
            "an endpoint over plain http (SEC-111)", issuer,
            issuer + "\n    endpoints: {token: \"http://id.example.com/t\"}",
            at: "providers.example.endpoints.token", says: "loopback"),
        Refusal(
            "an authorization parameter that the broker itself sets (SEC-07)", issuer,
            issuer + "\n    authorization_parameters: {state: x}", at: "providers.example.authorization_parameters",
            says: "`state`"),
        Refusal(
            "an allowed parameter that the broker itself sets (SEC-07)", issuer,
            issuer + "\n    allowed_parameters: [redirect_uri]", at: "providers.example.allowed_parameters",
            says: "`redirect_uri`"),
        Refusal(
            "an algorithm without a signature (SEC-25)", issuer, issuer + "\n    id_token: {algorithms: [none]}",
            at: "providers.example.id_token.algorithms", says: "`RS256`"),
        Refusal(
            "a symmetric algorithm", issuer, issuer + "\n    id_token: {algorithms: [HS256]}",
            at: "providers.example.id_token.algorithms", says: "`RS256`"),
        Refusal(
            "a leeway of an hour", issuer, issuer + "\n    id_token: {leeway: 1h}",
            at: "providers.example.id_token.leeway", says: "between"),
        Refusal(
            "a malformed JSON pointer", issuer, issuer + "\n    identity: {subject: data.id}",
            at: "providers.example.identity.subject", says: "JSON pointer"),
        Refusal(
            "oauth2 without endpoints", "kind: oidc\n    " + issuer, "kind: oauth2", at: "providers.example",
            says: "needs `endpoints`"),
        Refusal(
            "Clover without a site URL", "kind: oidc\n    " + issuer, "kind: clover\n    environment: us",
            at: "providers.example", says: "needs `site_url`"),
        Refusal(
            "a Clover client's redirect URI outside the site URL", "kind: oidc\n    " + issuer,
            "kind: clover\n    environment: us\n    site_url: https://app.example.com",
            at: "providers.example.clients.ios.redirect_uris", says: "outside `site_url`"),
        Refusal(
            "Zephr without a base URL", "kind: oidc\n    " + issuer, "kind: zephr\n    social_providers: [google]",
            at: "providers.example", says: "needs `base_url`"),
        Refusal(
            "Zephr without social providers", "kind: oidc\n    " + issuer,
            "kind: zephr\n    base_url: https://n.example.org", at: "providers.example", says: "social_providers"),
    ]

    static let clients: [Refusal] = [
        Refusal(
            "no client id", client + "\n", "transport: cookie\n", at: "providers.example.clients.ios",
            says: "needs `client_id`"),
        Refusal(
            "a misspelt setting of a client", client, client + "\n        redirect_uri: x",
            at: "providers.example.clients.ios.redirect_uri", says: "did you mean `redirect_uris`"),
        Refusal(
            "no redirect URI", "redirect_uris: [\"\(redirect)\"]", "transport: cookie",
            at: "providers.example.clients.ios", says: "needs `redirect_uris`"),
        Refusal(
            "an empty list of redirect URIs", "[\"\(redirect)\"]", "[]",
            at: "providers.example.clients.ios.redirect_uris", says: "at least one"),
        Refusal(
            "a redirect URI twice", "[\"\(redirect)\"]", "[\"\(redirect)\", \"\(redirect)\"]",
            at: "providers.example.clients.ios.redirect_uris", says: "twice"),
        Refusal(
            "two spellings of one redirect URI", "[\"\(redirect)\"]", "[\"https://a.test\", \"HTTPS://A.test:443/\"]",
            at: "providers.example.clients.ios.redirect_uris",
            says: "`https://a.test` and `HTTPS://A.test:443/` are one"),
        Refusal(
            "a redirect URI with the scheme `javascript` (SEC-92)", redirect, "javascript:/alert",
            at: "providers.example.clients.ios.redirect_uris",
            says: "redirect URIs"),
        Refusal(
            "a redirect URI with a callback parameter in its query", redirect, "https://a.example.com/cb?code=1",
            at: "providers.example.clients.ios.redirect_uris", says: "a name of the answer"),
        Refusal(
            "a redirect URI with a fragment", redirect, "https://a.example.com/cb#x",
            at: "providers.example.clients.ios.redirect_uris", says: "redirect URIs"),
        Refusal(
            "a redirect URI with a user name", redirect, "https://u@a.example.com/cb",
            at: "providers.example.clients.ios.redirect_uris", says: "redirect URIs"),
        Refusal(
            "a redirect URI with plain http", redirect, "http://a.example.com/cb",
            at: "providers.example.clients.ios.redirect_uris", says: "plain http"),
        Refusal(
            "a secret that is not used", auth, auth + "\n        client_secret: {env: EXAMPLE_CLIENT_SECRET}",
            at: "providers.example.clients.ios.client_secret", says: "`auth` says"),
        Refusal(
            "Basic without a secret", auth, "auth: client_secret_basic", at: "providers.example.clients.ios.auth",
            says: "needs `client_secret`"),
        Refusal(
            "a client with `private_key_jwt` and no private key", auth, "auth: private_key_jwt",
            at: "providers.example.clients.ios.auth",
            says: "needs `private_key`"),
        Refusal(
            "a private key file without a key", auth,
            "auth: private_key_jwt\n        private_key: {file: not-a-key.pem}",
            at: "providers.example.clients.ios.private_key.file", says: "private key in PEM"),
        Refusal(
            "the method `blank_secret_basic`, which only other kinds have, for an oidc client", auth,
            "auth: blank_secret_basic", at: "providers.example.clients.ios.auth",
            says: "blank_secret_basic"),
        Refusal(
            "a public client without PKCE", auth, auth + "\n        pkce: unsupported",
            at: "providers.example.clients.ios.pkce", says: "anyone with the code"),
        Refusal(
            "an unknown transport", auth, auth + "\n        transport: pigeon",
            at: "providers.example.clients.ios.transport", says: "`cookie` or `bearer`"),
        Refusal(
            "a client's idle time longer than its absolute time", auth, auth + "\n        session: {idle: 100d}",
            at: "providers.example.clients.ios.session.idle", says: "longer than absolute"),
        Refusal(
            "a hosted callback without the app's address", redirect, "https://auth.example.com/callback/example",
            at: "providers.example.clients.ios.redirect_uris", says: "hosted_callback_to"),
        Refusal(
            "another provider's callback (SEC-09)", redirect, "https://auth.example.com/callback/other",
            at: "providers.example.clients.ios.redirect_uris", says: "not this provider's"),
        Refusal(
            "an app's address without a hosted callback", auth,
            auth + "\n        hosted_callback_to: https://app.example.com/x",
            at: "providers.example.clients.ios.hosted_callback_to", says: "needs the hosted callback"),
        Refusal(
            "an app's address with the scheme `javascript`", auth,
            auth + "\n        hosted_callback_to: \"javascript:/x\"",
            at: "providers.example.clients.ios.hosted_callback_to", says: "https link"),
        Refusal(
            "a secret of three characters", auth, "client_secret: {env: SHORT_SECRET}",
            at: "providers.example.clients.ios.client_secret", says: "too short"),
        Refusal(
            "a placeholder as secret", auth, "client_secret: {env: PLACEHOLDER_SECRET}",
            at: "providers.example.clients.ios.client_secret", says: "placeholder"),
        Refusal(
            "the secret `changeme` (SEC-109)", auth, "client_secret: changeme",
            at: "providers.example.clients.ios.client_secret",
            says: "too short"),
        Refusal(
            "the secret `changeme-changeme`", auth, "client_secret: changeme-changeme",
            at: "providers.example.clients.ios.client_secret", says: "placeholder"),
        Refusal(
            "a secret of one repeated character", auth, "client_secret: zzzzzzzzzzzzzzzzzzzzzzzz",
            at: "providers.example.clients.ios.client_secret", says: "too simple"),
        Refusal(
            "a secret with a space", auth, "client_secret: {env: SPACED_SECRET}",
            at: "providers.example.clients.ios.client_secret", says: "without a space at an end"),
        Refusal(
            "a variable that is not set", auth, "client_secret: {env: NOT_SET}",
            at: "providers.example.clients.ios.client_secret", says: "not set"),
        Refusal(
            "a secret file that is not there", auth, "client_secret: {file: nowhere}",
            at: "providers.example.clients.ios.client_secret", says: "cannot be read"),
        Refusal(
            "a secret from two places", auth, "client_secret: {env: EXAMPLE_CLIENT_SECRET, file: google-client-secret}",
            at: "providers.example.clients.ios.client_secret", says: "{env: NAME}"),
        Refusal(
            "a secret from an unknown source", auth, "client_secret: {vault: x}",
            at: "providers.example.clients.ios.client_secret.vault", says: "not a key"),
    ]

    static let further: [Refusal] = [
        Refusal(
            "an upstream without rules", providers,
            added("upstreams: {a: {base_url: \"https://a.example.com\", provider: example}}"), at: "upstreams.a",
            says: "needs `allow`"),
        Refusal(
            "an upstream over plain http", providers,
            added("upstreams: {a: {base_url: \"http://a.example.com\", provider: example, allow: [\"GET /x\"]}}"),
            at: "upstreams.a.base_url", says: "https"),
        Refusal(
            "an upstream of an unknown provider", providers,
            added("upstreams: {a: {base_url: \"https://a.example.com\", provider: nobody, allow: [\"GET /x\"]}}"),
            at: "upstreams.a.provider", says: "not configured"),
        Refusal(
            "a rule without a path", providers,
            added("upstreams: {a: {base_url: \"https://a.example.com\", provider: example, allow: [\"GET\"]}}"),
            at: "upstreams.a.allow", says: ""),
        Refusal(
            "a rule that passes cookies", providers,
            added(
                "upstreams: {a: {base_url: \"https://a.example.com\", provider: example, allow: [\"GET /x\"], request_headers: [Cookie]}}"
            ), at: "upstreams.a.request_headers", says: ""),
        Refusal(
            "Zephr's session cookie for an upstream of another kind", providers,
            added(
                "upstreams: {a: {base_url: \"https://a.example.com\", provider: example, allow: [\"GET /x\"], credential: zephr_cookie}}"
            ), at: "upstreams.a.credential", says: "zephr"),
        Refusal(
            "a backend without a credential", providers, added("backends: {a: {may: [introspect]}}"), at: "backends.a",
            says: "needs `sha256` or `peers`"),
        Refusal(
            "a backend without permissions", providers, added("backends: {a: {peers: [10.0.0.1]}}"), at: "backends.a",
            says: "needs `may`"),
        Refusal(
            "a backend whose address is any address", providers,
            added("backends: {a: {peers: [0.0.0.0/0], may: [introspect]}}"),
            at: "backends.a.peers", says: "whole internet"),
        Refusal(
            "a backend known by its address, without a backends' listener", providers,
            added("backends: {a: {peers: [10.0.0.1], may: [introspect]}}"), at: "backends.a.peers",
            says: "write `server: {backend_listen: 127.0.0.1:8081}`"),
        Refusal(
            "a backend known by its address and a secret, without a backends' listener", providers,
            added(
                "backends: {a: {sha256: 3b1f0d7c5f0a3a9d4b8f6b2f6a8e1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d, peers: [10.0.0.1], may: [introspect]}}"
            ), at: "backends.a.peers", says: "(`sha256`) instead of `peers`"),
        Refusal(
            "two backends with one credential", providers,
            added(
                "backends: {a: {sha256: 3b1f0d7c5f0a3a9d4b8f6b2f6a8e1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d, may: [introspect]}, b: {sha256: 3b1f0d7c5f0a3a9d4b8f6b2f6a8e1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d, may: [token]}}"
            ), at: "backends.b.sha256", says: "has the same credential as"),
        Refusal(
            "a backend with a secret that is easy to guess", providers,
            added(
                "backends: {a: {sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae, may: [introspect]}}"
            ), at: "backends.a.sha256", says: "tries first"),
        Refusal(
            "a backend for an unknown provider", providers,
            added("backends: {a: {peers: [10.0.0.1], may: [introspect], allow: [{provider: nobody}]}}"),
            at: "backends.a.allow[0]", says: "not configured"),
        Refusal(
            "a backend for an unknown client", providers,
            added(
                "backends: {a: {peers: [10.0.0.1], may: [introspect], allow: [{provider: example, clients: [android]}]}}"
            ), at: "backends.a.allow[0]", says: "does not have"),
        Refusal(
            "a forwarded token without forward-auth", providers,
            added("backends: {a: {peers: [10.0.0.1], may: [introspect], forward_access_token: true}}"),
            at: "backends.a.forward_access_token", says: "forward-auth"),
        Refusal(
            "sliding without introspection", providers,
            added("backends: {a: {peers: [10.0.0.1], may: [token], slides: true}}"), at: "backends.a.slides",
            says: "introspect"),
        Refusal(
            "an app link for every path (SEC-93)", providers,
            added("app_links: {ios: {app_ids: [T.a], paths: [\"/*\"]}}"), at: "app_links.ios.paths", says: "every link"),
        Refusal(
            "an app link without an app", providers, added("app_links: {ios: {paths: [/oauth/*]}}"),
            at: "app_links.ios.app_ids", says: "at least one"),
        Refusal(
            "a fingerprint that is too short", providers,
            added("app_links: {android: {package: a.b, sha256_cert_fingerprints: [\"14:6D\"]}}"),
            at: "app_links.android.sha256_cert_fingerprints", says: "32 pairs"),
    ]

    @Test(
        "A faulty configuration file → refused, and the error names the fault's setting and words (SEC-109)",
        arguments: server + sessions + providerFaults + clients + further)
    func refused(_ refusal: Refusal) {
        #expect(refusal.text != ConfigurationFixture.minimal, "the text has no fault: the text to replace is missing")
        let errors = ConfigurationFixture.errors(refusal.text)
        #expect(!errors.isEmpty, "the faulty file was accepted")
        let named = errors.contains {
            (refusal.path.isEmpty || $0.path == refusal.path)
                && (refusal.words.isEmpty || $0.message.contains(refusal.words))
        }
        #expect(named, "named instead: \(errors)")
    }

    @Test(
        "A file has a misspelt key, two providers with one callback and the secret `changeme` → all three are reported (SEC-109)"
    )
    func allTogether() {
        let text =
            ConfigurationFixture.minimal
            + "\n  other:\n    kind: oidc\n    isuer: https://other.example.com\n    clients:\n      ios:\n"
            + "        client_id: other-app\n        client_secret: changeme\n"
            + "        redirect_uris: [\"com.example.app:/oauth2redirect\"]\n"
        let errors = ConfigurationFixture.errors(text)
        let paths = Set(errors.map(\.path))
        #expect(
            paths.isSuperset(of: [
                "providers.other.isuer", "providers.other.clients.ios.client_secret",
                "providers.other.clients.ios.redirect_uris",
            ]), "\(errors)")
        // `isuer` is reported as misspelt, so the missing `issuer` must not be reported, too.
        #expect(!paths.contains("providers.other"))
        #expect(errors.allSatisfy { ($0.line ?? 0) > 13 }, "\(errors)")
        #expect(errors == errors.sorted())
    }

    @Test("Two providers have the same issuer and client id → refused (SEC-112)")
    func sharedRegistration() {
        let text =
            ConfigurationFixture.minimal
            + "\n  other:\n    kind: oidc\n    issuer: https://id.example.com\n    clients:\n      ios:\n"
            + "        client_id: mobile-app\n        redirect_uris: [\"com.example.other:/cb\"]\n"
        let errors = ConfigurationFixture.errors(text)
        #expect(errors.contains { $0.message.contains("registration of its own") }, "\(errors)")
    }

    @Test("A file has a secret in wrong places → no message repeats the secret (SEC-114)")
    func bland() {
        let canary = "CANARYcanary0123456789"
        let texts = [
            ConfigurationFixture.minimal.replacingFirst(Self.auth, with: "client_secret: \"\(canary)\\t\(canary)\""),
            ConfigurationFixture.minimal.replacingFirst(Self.auth, with: "client_secret: [\(canary)]"),
            ConfigurationFixture.minimal.replacingFirst(Self.auth, with: "client_secret: {env: \(canary)}"),
            ConfigurationFixture.minimal.replacingFirst(Self.auth, with: "auth: \(canary)"),
            ConfigurationFixture.minimal.replacingFirst(Self.auth, with: "client_secret: \"\(canary)"),
            ConfigurationFixture.minimal.replacingFirst(Self.auth, with: "client_secret: \(canary): x: y"),
            ConfigurationFixture.minimal.replacingFirst(
                Self.url, with: "public_url: https://u:\(canary)@a.example.com"),
            ConfigurationFixture.minimal.replacingFirst(
                Self.providers,
                with: "store: {url: \"postgresql://u:\(canary)@db/x?nonsense=\(canary)\"}\n\(Self.providers)"),
            ConfigurationFixture.minimal.replacingFirst(
                Self.providers, with: "store: {url: {env: \(canary)}}\n\(Self.providers)"),
            ConfigurationFixture.minimal.replacingFirst(
                Self.providers, with: "outbound: {proxy: \"http://u:\(canary)@p:1\"}\n\(Self.providers)"),
        ]
        for text in texts {
            let errors = ConfigurationFixture.errors(text)
            #expect(!errors.isEmpty)
            #expect(!errors.contains { "\($0)".contains(canary) }, "\(errors)")
        }
    }

    @Test(
        "A configuration file that is not YAML, or not a mapping → refused",
        arguments: ["a: [", "a: 1\na: 2", "", "- a", "\t- x: [}", "a: &x [*y]", "%"])
    func notYAML(_ text: String) {
        #expect(!ConfigurationFixture.errors(text).isEmpty)
    }

    @Test("A missing configuration file → refused")
    func noFile() {
        #expect(throws: ConfigurationFailure.self) { try Configuration.load(path: "/nonexistent/coatcheck.yaml") }
    }
}

extension String {
    func replacingOccurrence(_ part: String, _ other: String) -> String {
        var result = ""
        var rest = self[...]
        while let range = rest.firstRange(of: part) {
            result += rest[..<range.lowerBound] + other
            rest = rest[range.upperBound...]
        }
        return result + rest
    }
}
