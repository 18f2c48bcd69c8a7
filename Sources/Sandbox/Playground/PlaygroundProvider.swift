/// A provider as the phone offers it.
struct PlaygroundProvider: Sendable {
    /// Its name in the broker's configuration, and here.
    let name: String
    /// The client that the phone is.
    let client: String
    let title: String
    /// The special thing about it, in a few words.
    let remark: String
    /// The path behind `/v1/relay/` that the phone calls.
    let relay: String
    /// The further members of a login of it.
    var more: [(String, JSON)] = []
    /// Whether the client's sessions belong to a key of the phone.
    var isBound = false
    /// Whether the client has `children: {web}`: the app opens a page, signed in.
    var hasShop = false
    /// Whether the phone can pay with it: its provider says how lately the user signed in.
    var hasPayments = false
    /// The endpoints of the sandbox at which a provider that is down does not answer.
    var endpoints = ["*"]

    /// All of them, as the phone lists them.
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

    /// The query by which the provider says that the user signed in there an hour ago, where that matters.
    var age: String { hasPayments ? "&sandbox_auth_age=3600" : "" }

    /// The name by which the page chooses it.
    var choice: String { isBound ? name + "-" + client : name }

    /// The provider of a choice.
    static func named(_ choice: String) -> PlaygroundProvider? { all.first { $0.choice == choice } }

    /// The same provider with a client whose sessions belong to no key.
    var unbound: PlaygroundProvider { Self.all.first { $0.name == name && !$0.isBound } ?? self }

    /// The body that starts a login.
    var loginBody: JSON {
        var body: JSON = ["provider": .string(name), "client": .string(client)]
        for (name, value) in more { body[name] = value }
        return body
    }

    /// The people who may be chosen on its page: what is sent, and what the button says.
    var people: [(String, String)] {
        name == "zephr"
            ? [("ana", "Ana, who is known"), ("new", "Somebody new"), ("refuse", "Refuse")]
            : [("ana", "Allow as Ana"), ("ben", "Allow as Ben"), ("refuse", "Refuse")]
    }
}
