/// The phone's screen.
struct PhoneScreen: Sendable {
    /// A kind of screen.
    enum View: String, Sendable {
        /// The list of providers.
        case home
        /// The provider's page in the browser.
        case consent
        /// The form for what a registration lacks.
        case registration
        case session
    }

    var view = View.home
    var provider: PlaygroundProvider?
    /// The work at hand; it takes no other order meanwhile.
    var busy = ""
    /// The address in the browser's bar.
    var address = ""
    /// The fields that a registration lacks, as the broker said it.
    var registration: JSON = .null
    var session: JSON = .null
    /// A word to the user: why a sign-in failed, why the session ended.
    var message = ""
    /// The result of the last call of the API, in words.
    var relay = ""
    /// The page in the web view, in words, and its address; empty while none is open.
    var shop = ""
    var shopAddress = ""
    var isListening = false
    /// The last events.
    var events: [String] = []
    /// The last trouble as the user noticed it, and why it was no more.
    var noticed = ""
    var explanation = ""
    /// The number of times that this was said.
    var notices = 0
    /// Whether the providers answer nobody.
    var providersAreDown = false
    /// Whether a thief holds a copy of the cookie.
    var cookieIsStolen = false

    /// The screen as the page receives it.
    var json: JSON {
        [
            "view": .string(view.rawValue), "provider": .string(provider?.name ?? ""),
            "provider_title": .string(provider?.unbound.title ?? ""), "busy": .string(busy),
            "address": .string(address),
            "people": .array(
                (provider?.people ?? []).map { ["name": .string($0.0), "title": .string($0.1)] }),
            "registration": registration, "session": session, "message": .string(message), "relay": .string(relay),
            "has_shop": .bool(provider?.hasShop == true), "shop": .string(shop),
            "shop_address": .string(shopAddress),
            "listening": .bool(isListening), "events": .array(events.map { .string($0) }),
            "noticed": .string(noticed), "explanation": .string(explanation),
            "notices": .int(notices),
            "providers_down": .bool(providersAreDown), "cookie_stolen": .bool(cookieIsStolen),
        ]
    }
}
