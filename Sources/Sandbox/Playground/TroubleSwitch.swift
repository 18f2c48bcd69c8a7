/// The switches on the page.
///
/// Each of them simulates a trouble, such as a lost answer or a theft.
enum TroubleSwitch: String, CaseIterable, Sendable {
    case expireToken = "expire-token"
    case dropAnswer = "drop-answer"
    case loseMove = "lose-move"
    case killProvider = "kill-provider"
    case fiftyForwards = "fifty-forwards"
    case stealCode = "steal-code"
    case stealCookie = "steal-cookie"
    case stealAddress = "steal-address"
    case stealRefreshToken = "steal-refresh-token"
    case ignoreStepUp = "ignore-step-up"
    case stealPresence = "steal-presence"
    case logOutElsewhere = "log-out-elsewhere"
    case killBroker = "kill-broker"

    /// The label of the switch.
    var title: String {
        switch self {
        case .expireToken: "Expire the token"
        case .dropAnswer: "Drop the provider's answer"
        case .loseMove: "Lose the move's answer"
        case .killProvider: "Kill the provider"
        case .fiftyForwards: "Fifty forwards of one code"
        case .stealCode: "Steal the code"
        case .stealCookie: "Steal the cookie"
        case .stealAddress: "Steal the page's address"
        case .stealRefreshToken: "Steal the refresh token"
        case .ignoreStepUp: "Ignore the step-up"
        case .stealPresence: "Steal the confirmation"
        case .logOutElsewhere: "Log out elsewhere"
        case .killBroker: "Kill the broker"
        }
    }

    /// The effect of the switch.
    var explanation: String {
        switch self {
        case .expireToken: "The provider's API takes the access token no more. Then the app calls it."
        case .dropAnswer: "The provider rotates the tokens, and its answer is lost on the way."
        case .loseMove: "The older app is updated, and the provider's answer is lost on the way."
        case .killProvider: "It answers nobody until you revive it. The app goes on."
        case .fiftyForwards: "A nervous app hands in the same callback fifty times at once."
        case .stealCode: "Another app catches the callback URL and is faster than yours."
        case .stealCookie: "Somebody has a copy of the session cookie."
        case .stealAddress: "Somebody has copied the address that opens the shop signed in."
        case .stealRefreshToken: "Somebody has copied the older app's refresh token. Then the app is updated."
        case .ignoreStepUp: "A payment of 20 €: the provider lets the old sign-in through, whatever it is asked."
        case .stealPresence: "You confirm 500 €: thieves have the proof, the cookies and the silent key."
        case .logOutElsewhere: "The same user ends this phone's session from a tablet."
        case .killBroker: "kill -9, and a new start on the same database."
        }
    }

    /// The party that causes the trouble.
    ///
    /// The page has a group of switches for each party.
    enum Group: String, Sendable { case network, thief, user }

    var group: Group {
        switch self {
        case .expireToken, .dropAnswer, .loseMove, .killProvider, .ignoreStepUp, .killBroker: .network
        case .stealCode, .stealCookie, .stealAddress, .stealRefreshToken, .stealPresence: .thief
        case .fiftyForwards, .logOutElsewhere: .user
        }
    }

    /// Whether the switch needs a signed-in user.
    var needsSession: Bool {
        switch self {
        case .expireToken, .dropAnswer, .stealCookie, .stealAddress, .ignoreStepUp, .stealPresence, .logOutElsewhere:
            true
        case .loseMove, .killProvider, .fiftyForwards, .stealCode, .stealRefreshToken, .killBroker: false
        }
    }

    /// Whether the switch needs a provider with refresh tokens.
    var needsRefreshing: Bool { self == .expireToken || self == .dropAnswer }

    /// Whether the switch needs a provider with payments.
    var needsPayments: Bool { self == .ignoreStepUp || self == .stealPresence }

    /// Whether the switch needs a bound session.
    var needsKey: Bool { self == .stealPresence }

    /// Whether the switch needs a client with web pages.
    var needsShop: Bool { self == .stealAddress }

    /// Whether the switch needs the provider's tokens on the phone.
    var needsOldApp: Bool { self == .loseMove || self == .stealRefreshToken }
}
