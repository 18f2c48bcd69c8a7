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
    /// The last payment, in words.
    var paid = ""
    /// The reason for which the provider's page is open once more; empty where it is a sign-in's.
    var stepUp = ""
    /// The question whose answer yes makes a proof of presence; empty where none is open.
    var question = ""
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

    /// The people who may be chosen on the provider's page.
    private var people: [(String, String)] {
        guard let provider else { return [] }
        guard !stepUp.isEmpty else { return provider.people }
        let again = session["subject"]?.text.map { String($0.dropFirst("user-".count)) }
        return [("ana", "Ana"), ("ben", "Ben")].map { name, title in
            (name, name == again ? "Sign in again as \(title)" : "Sign in as \(title)")
        } + [("refuse", "Refuse")]
    }

    /// The screen as the page receives it.
    var json: JSON {
        [
            "view": .string(view.rawValue), "provider": .string(provider?.name ?? ""),
            "provider_title": .string(provider?.unbound.title ?? ""), "busy": .string(busy),
            "address": .string(address),
            "people": .array(people.map { ["name": .string($0.0), "title": .string($0.1)] }),
            "registration": registration, "session": session, "message": .string(message), "relay": .string(relay),
            "has_payments": .bool(provider?.hasPayments == true), "paid": .string(paid), "step_up": .string(stepUp),
            "question": .string(question),
            "has_shop": .bool(provider?.hasShop == true), "shop": .string(shop),
            "shop_address": .string(shopAddress),
            "listening": .bool(isListening), "events": .array(events.map { .string($0) }),
            "noticed": .string(noticed), "explanation": .string(explanation),
            "notices": .int(notices),
            "providers_down": .bool(providersAreDown), "cookie_stolen": .bool(cookieIsStolen),
        ]
    }
}
