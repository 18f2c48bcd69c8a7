/// The contents of the phone's screen.
struct PhoneScreen: Sendable {
    /// The view that the screen shows.
    enum View: String, Sendable {
        /// The list of providers.
        case home
        /// The provider's page in the browser.
        case consent
        /// The form for the missing attributes of a registration.
        case registration
        case session
        /// The app before its update, with the provider's tokens.
        case oldApp = "old-app"
    }

    var view = View.home
    var provider: PlaygroundProvider?
    /// The work in progress, in words; empty if there is none.
    ///
    /// During the work, the phone accepts no other action.
    var busy = ""
    /// The address in the browser's address bar.
    var address = ""
    /// The missing fields of a registration, from the broker's answer.
    var registration: JSON = .null
    var session: JSON = .null
    /// The app before its update, from its sign-in until the move; nil if the app is up to date.
    var oldApp: OldApp?
    /// A message to the user, such as the reason of a failed sign-in or of the session's end.
    var message = ""
    /// The result of the last API call, in words.
    var relay = ""
    /// The result of the last payment, in words.
    var paid = ""
    /// The reason for a step-up at the provider's page; empty for an ordinary sign-in.
    var stepUp = ""
    /// The question to the user, who makes a presence proof by answering yes; empty if there is none.
    var question = ""
    /// The web view's page, in words, and its address; empty while the web view is closed.
    var shop = ""
    var shopAddress = ""
    var isListening = false
    /// The last events.
    var events: [String] = []
    /// A sentence about what the user has noticed of the last simulated trouble, and the explanation of that trouble.
    var noticed = ""
    var explanation = ""
    /// The number of simulated troubles that were shown to the user so far.
    var notices = 0
    /// Whether the providers are switched off.
    var providersAreDown = false
    /// Whether a thief has a copy of the cookie.
    var cookieIsStolen = false

    /// The users to choose from on the provider's page.
    private var people: [(String, String)] {
        guard let provider else { return [] }
        guard !stepUp.isEmpty else { return provider.people }
        let again = session["subject"]?.text.map { String($0.dropFirst("user-".count)) }
        return [("ana", "Ana"), ("ben", "Ben")].map { name, title in
            (name, name == again ? "Sign in again as \(title)" : "Sign in as \(title)")
        } + [("refuse", "Refuse")]
    }

    /// The contents of the screen as JSON, as the page reads it.
    var json: JSON {
        [
            "view": .string(view.rawValue), "provider": .string(provider?.name ?? ""),
            "provider_title": .string(provider?.unbound.title ?? ""), "busy": .string(busy),
            "address": .string(address),
            "people": .array(people.map { ["name": .string($0.0), "title": .string($0.1)] }),
            "registration": registration, "session": session, "message": .string(message), "relay": .string(relay),
            "old_tokens": oldApp?.shownTokens ?? .null,
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
