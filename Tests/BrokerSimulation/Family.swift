/// One grant at the provider, with every token that comes from one code.
final class Family {
    /// The cause of a grant's death.
    enum Death { case byItsUser, reuse, revokedByBroker }

    /// An event between a call and its commit that may lose the result for good.
    enum Mishap { case answerLost, crash, pause(Int), cutOff(Int) }

    /// The shortest absence of an owner after which its claim lapses, in milliseconds, if it was renewed as late as
    /// possible.
    private static let shortestLapse = 14_000

    let number: Int
    let code: String
    /// The person whose grant this is.
    let person: Int
    /// The number of the refresh token that is good now.
    var current = 0
    /// The thumbprint of the key that the grant's tokens are bound to.
    var key: String?
    /// The numbers of the refresh tokens whose access token came without a binding.
    var unbound: Set<Int> = []
    var death: Death?
    /// Whether the grant's session was ended at the broker.
    var isSessionEnded = false
    /// Whether a revocation of another grant also ended this grant, before the broker knew the grant's user.
    var isRevokedUnseen = false
    var mishaps: [Mishap] = []
    /// Whether a mishap hit a call with a target.
    ///
    /// Each target has an idempotency key of its own. The provider replays the lost answer only to a call with the same key.
    var hasLostTarget = false
    /// Whether an abandoned call arrived after two more refreshes.
    ///
    /// By then every row has forgotten the call (`RefreshMarks`), so the refusal looks as if the user had withdrawn the grant.
    var isReusedUnremembered = false
    /// The number of the first refresh token whose answer had another user's id_token.
    var strangerFrom: Int?
    /// The number of the last answer's refresh token, and the idempotency key of its call.
    var lastAnswer: (key: String, token: Int)?
    /// The time of the user's sign-in, in seconds.
    var signedInAt: Int64 = 0
    /// Whether the grant began with the step-up of a session.
    var isStepUp = false
    /// Whether the grant's answer lacks a refresh token of its own.
    var hasNoRefreshToken = false
    /// Whether the broker must refuse the grant's sign-in, because it is too weak or another user's.
    var isWeak = false
    var isStrangers = false
    var isUnfit: Bool { isWeak || isStrangers }
    /// The scope in the answer with each refresh token, if the provider names scopes.
    var scopes: [Int: [String]] = [:]
    /// The refresh token of another grant that this grant's answer repeats.
    var repeated: String?
    /// The time when a step-up replaced the grant.
    var replacedAt: Int?
    /// Whether the grant's identity call failed.
    var identityFailed = false

    init(number: Int, code: String, person: Int) {
        self.number = number
        self.code = code
        self.person = person
    }

    /// Whether a result may have been lost for good between a call and its commit.
    ///
    /// A provider that replays loses nothing. If a provider refuses the old token without killing the grant, a paused owner has
    /// a minute after a take-over to come back.
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
