/// One grant at the provider: every token that came of one code.
final class Family {
    /// Why it died.
    enum Death { case byItsUser, reuse, revokedByBroker }

    /// What happened between a call and its commit that nobody can save.
    enum Mishap { case answerLost, crash, pause(Int) }

    let number: Int
    let code: String
    /// The refresh token that is good now.
    var current = 0
    var death: Death?
    var mishaps: [Mishap] = []
    /// From this refresh on, the id_token names somebody else.
    var strangerFrom: Int?
    /// The last answer by idempotency key.
    var lastAnswer: (key: String, token: Int)?
    /// Whether its identity call failed.
    var identityFailed = false

    init(number: Int, code: String) {
        self.number = number
        self.code = code
    }

    /// Whether what was between a call and its commit may have been lost for good.
    ///
    /// A provider that replays loses nothing; one that refuses the old token without killing the grant leaves a paused
    /// owner the minute after a take-over to come back in.
    func mayBeLost(_ rotation: Weather.Rotation, longestOutage: Int) -> Bool {
        if rotation == .replayed { return false }
        var paused = 0
        for mishap in mishaps {
            switch mishap {
            case .answerLost, .crash: return true
            case .pause(let length): paused += length
            }
        }
        return paused > 0 && (rotation == .reuseDetected || paused + longestOutage >= 60_000)
    }
}
