/// One grant at the provider, with every token that comes from one code.
final class Family {
    /// The cause of a grant's death.
    enum Death { case byItsUser, reuse, revokedByBroker }

    /// An event between a call and its commit that may lose the result for good.
    enum Mishap { case answerLost, crash, pause(Int), cutOff(Int) }

    /// The shortest absence of an owner that lets its claim lapse, if the claim was renewed as late as possible.
    private static let shortestLapse = 14_000

    let number: Int
    let code: String
    /// The owner of the grant.
    let person: Int
    /// The refresh token that is good now.
    var current = 0
    /// The thumbprint of the key that the grant's tokens are bound to.
    var key: String?
    /// The refresh tokens whose access token came unbound.
    var unbound: Set<Int> = []
    var death: Death?
    /// Whether the grant's session was ended at the broker.
    var isSessionEnded = false
    /// Whether a revocation took the grant along before the broker knew its owner.
    var isRevokedUnseen = false
    var mishaps: [Mishap] = []
    /// Whether a mishap hit a call with a target.
    ///
    /// Each target has an idempotency key of its own. The provider replays such an answer only if the repeat has the same key.
    var hasLostTarget = false
    /// Whether an abandoned call arrived after two more refreshes.
    ///
    /// By then the call is missing in every row (`RefreshMarks`), so the refusal that follows counts as the user's.
    var isReusedUnremembered = false
    /// The first refresh whose id_token names another user.
    var strangerFrom: Int?
    /// The last answer, with its idempotency key.
    var lastAnswer: (key: String, token: Int)?
    /// The time of the user's sign-in, in seconds.
    var signedInAt: Int64 = 0
    /// Whether the grant began with the step-up of a session.
    var isStepUp = false
    /// Whether the grant's answer lacks a refresh token of its own.
    var hasNoRefreshToken = false
    /// Whether its sign-in must be refused, because the sign-in is too weak or of another user.
    var isWeak = false
    var isStrangers = false
    var isUnfit: Bool { isWeak || isStrangers }
    /// The scope that came with each refresh token, if the provider names scopes.
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
