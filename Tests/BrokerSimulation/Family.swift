/// One grant at the provider: every token that came of one code.
final class Family {
    /// The cause of its death.
    enum Death { case byItsUser, reuse, revokedByBroker }

    /// An event between a call and its commit that nobody can save.
    enum Mishap { case answerLost, crash, pause(Int), cutOff(Int) }

    /// A claim that was renewed as late as it may be lapses when its owner is away for so long.
    private static let shortestLapse = 14_000

    let number: Int
    let code: String
    /// The person whose it is.
    let person: Int
    /// The refresh token that is good now.
    var current = 0
    /// The thumbprint of the key that its tokens are bound to.
    var key: String?
    /// The refresh tokens whose access token came unbound.
    var unbound: Set<Int> = []
    var death: Death?
    /// Whether its session was ended at the broker.
    var isSessionEnded = false
    /// Whether a revocation took it along before the broker knew whose it is.
    var isRevokedUnseen = false
    var mishaps: [Mishap] = []
    /// Whether one of them was a call's with a target: what is replayed to that target's own key is refused to every other.
    var hasLostTarget = false
    /// Whether a call that had been given up arrived after two more refreshes: by then no row remembers it (`RefreshMarks`), and
    /// the refusal that follows is taken for the user's.
    var isReusedUnremembered = false
    /// From this refresh on, the id_token names somebody else.
    var strangerFrom: Int?
    /// The last answer by idempotency key.
    var lastAnswer: (key: String, token: Int)?
    /// The time at which its user signed in, in seconds.
    var signedInAt: Int64 = 0
    /// Whether it began with the step-up of a session.
    var isStepUp = false
    /// Whether its answer has no refresh token of its own.
    var hasNoRefreshToken = false
    /// Whether its sign-in must be refused, because the sign-in is too weak or of another user.
    var isWeak = false
    var isStrangers = false
    var isUnfit: Bool { isWeak || isStrangers }
    /// The scope that came with each refresh token, if the provider names scopes.
    var scopes: [Int: [String]] = [:]
    /// The refresh token of another grant that its answer repeats.
    var repeated: String?
    /// The time at which a step-up put another in its place.
    var replacedAt: Int?
    /// Whether its identity call failed.
    var identityFailed = false

    init(number: Int, code: String, person: Int) {
        self.number = number
        self.code = code
        self.person = person
    }

    /// Whether what was between a call and its commit may have been lost for good.
    ///
    /// A provider that replays loses nothing; one that refuses the old token without killing the grant leaves a paused
    /// owner the minute after a take-over to come back in.
    func mayBeLost(_ rotation: Weather.Rotation, longestOutage: Int) -> Bool {
        if rotation == .replayed, !hasLostTarget { return false }
        var paused = 0
        for mishap in mishaps {
            switch mishap {
            case .answerLost, .crash: return true
            case .pause(let length), .cutOff(let length): paused += length
            }
        }
        return paused > 0 && paused + longestOutage >= (rotation == .reuseDetected ? Self.shortestLapse : 60_000)
    }
}
