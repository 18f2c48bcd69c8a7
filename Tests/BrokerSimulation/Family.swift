/// One grant at the provider, with all tokens that result from one authorization code.
final class Family {
    /// The reason why a grant has ended at the provider.
    enum Death { case byItsUser, reuse, revokedByBroker }

    /// An event between a provider call and the commit of its result, which may lose this result for good.
    enum Mishap { case answerLost, crash, pause(Int), cutOff(Int) }

    /// The shortest absence of a claim's owner that may let the claim lapse, in milliseconds.
    ///
    /// The owner may have renewed the claim a while before the absence, so this time is shorter than the claim.
    private static let shortestLapse = 14_000

    let number: Int
    let code: String
    /// The person who gave this grant.
    let person: Int
    /// The number of the refresh token that the provider accepts now.
    var current = 0
    /// The thumbprint of the key that the grant's tokens are bound to.
    var key: String?
    /// The numbers of the refresh tokens that came with an access token that is bound to no key.
    var unbound: Set<Int> = []
    var death: Death?
    /// Whether the broker has ended the session of the grant.
    var isSessionEnded = false
    /// Whether the revocation of another grant also ended this grant, at a time when no session had this grant.
    var isRevokedUnseen = false
    var mishaps: [Mishap] = []
    /// Whether the answer to a call for another API may be lost because of a mishap.
    ///
    /// Calls for different APIs have different idempotency keys. The provider repeats the lost answer only to a call with the
    /// same key.
    var hasLostTarget = false
    /// Whether a call that its process had given up arrived at the provider after two more refreshes.
    ///
    /// By then the session's row has forgotten this call (`RefreshMarks`). So the provider's refusal looks as if the user had
    /// withdrawn the grant.
    var isReusedUnremembered = false
    /// The number of the first refresh token that came with another user's id_token; nil if there is none.
    var strangerFrom: Int?
    /// The idempotency key of the last refresh call, and the number of the refresh token in its answer.
    var lastAnswer: (key: String, token: Int)?
    /// The time of the user's sign-in, in seconds.
    var signedInAt: Int64 = 0
    /// Whether the grant results from a step-up, and not from a sign-in that made a session.
    var isStepUp = false
    /// Whether the answer to the grant's code has no refresh token, or only repeats the token of another grant.
    var hasNoRefreshToken = false
    /// Whether the grant's sign-in is too weak (`isWeak`) or another user's (`isStrangers`).
    ///
    /// The broker must refuse both.
    var isWeak = false
    var isStrangers = false
    var isUnfit: Bool { isWeak || isStrangers }
    /// The scope that came with each refresh token, by the token's number, if the provider names scopes.
    var scopes: [Int: [String]] = [:]
    /// The refresh token of another grant, if the answer to this grant's code repeats that token.
    var repeated: String?
    /// The time when a step-up replaced this grant by another; nil if none did.
    var replacedAt: Int?
    /// Whether the call that asks for the user's identity failed after the code was redeemed.
    var identityFailed = false

    init(number: Int, code: String, person: Int) {
        self.number = number
        self.code = code
        self.person = person
    }

    /// Whether a mishap may have lost the result of a provider call for good, so that no broker could save the session.
    ///
    /// The provider decides this. If the provider repeats its answer to a repeated call, the result is safe. If the provider
    /// refuses the old token without ending the grant, the result is saved as long as a paused owner comes back within a minute
    /// after the take-over of its claim.
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
