/// A provider that the phone offers.
struct PlaygroundProvider: Sendable {
    /// The provider's name, both here and in the broker's configuration.
    let name: String
    /// The phone's client.
    let client: String
    let title: String
    /// The provider's special feature, in a few words.
    let remark: String
    /// The path after `/v1/relay/` that the phone calls.
    let relay: String
    /// Further members in the body of the provider's logins.
    var more: [(String, JSON)] = []
    /// Whether the client's sessions are bound to a key of the phone.
    var isBound = false
    /// Whether the client has `children: {web}`, so that the app can open a signed-in page.
    var hasShop = false
    /// Whether the phone can make payments with this provider, because the provider reports the time of the sign-in.
    var hasPayments = false
    /// The sandbox's endpoints that stop answering if the provider is down.
    var endpoints = ["*"]

    /// All providers, in the phone's order.
    static let all = [
        PlaygroundProvider(
            name: "oidc", client: "ios", title: "OpenID Connect", remark: "discovery, PKCE, id_token",
            relay: "api/private/orders", hasShop: true, hasPayments: true),
        PlaygroundProvider(
            name: "oidc", client: "bound", title: "OpenID Connect, bound",
            remark: "the session belongs to a key of the phone",
            relay: "api/private/orders", isBound: true, hasPayments: true),
        PlaygroundProvider(
            name: "cloudentity", client: "ios", title: "Cloudentity", remark: "repeatable refresh",
            relay: "shop-cloudentity/private/orders"),
        PlaygroundProvider(
            name: "clever", client: "ios", title: "Clever", remark: "a blank secret, no PKCE",
            relay: "shop-clever/private/orders"),
        PlaygroundProvider(
            name: "clover", client: "web", title: "Clover", remark: "JSON, refresh tokens for one use",
            relay: "shop-clover/private/orders"),
        PlaygroundProvider(
            name: "github", client: "web", title: "GitHub style", remark: "plain OAuth 2.0, identity from an API",
            relay: "shop-github/private/orders"),
        PlaygroundProvider(
            name: "zephr", client: "android", title: "Zephr", remark: "registers who is new",
            relay: "news/blaize/profile", more: [("social_provider", "google")],
            endpoints: ["start", "social", "callback", "account", "register", "login", "logout"]),
    ]

    /// The query that makes the provider report a sign-in an hour ago, for providers with payments.
    var age: String { hasPayments ? "&sandbox_auth_age=3600" : "" }

    /// The provider's name in the list on the page.
    var choice: String { isBound ? name + "-" + client : name }

    /// Returns the provider that has this name in the list on the page.
    static func named(_ choice: String) -> PlaygroundProvider? { all.first { $0.choice == choice } }

    /// Returns the same provider with a client whose sessions are unbound.
    var unbound: PlaygroundProvider { Self.all.first { $0.name == name && !$0.isBound } ?? self }

    /// The body that starts a login.
    var loginBody: JSON {
        var body: JSON = ["provider": .string(name), "client": .string(client)]
        for (name, value) in more { body[name] = value }
        return body
    }

    /// The users to choose from on the provider's page: the sent value, and the button's text.
    var people: [(String, String)] {
        name == "zephr"
            ? [("ana", "Ana, who is known"), ("new", "Somebody new"), ("refuse", "Refuse")]
            : [("ana", "Allow as Ana"), ("ben", "Allow as Ben"), ("refuse", "Refuse")]
    }
}
