/// The state of the sandbox.
struct Storage: Sendable {
    var baseURL = ""
    /// The base URL of the listener that asks for certificates; empty if it is off.
    var mutualTLSURL = ""
    var clockOffset = 0.0
    var users: [String: JSON] = [:]
    var clients: [String: [String: SandboxClient]] = [:]
    var settings: [String: JSON] = [:]
    var faults: [Fault] = []
    var counts: [String: Int] = [:]
    var records = RecordRing()
    var grants: [String: Grant] = [:]
    var codes: [String: IssuedCode] = [:]
    var accessTokens: [String: AccessToken] = [:]
    var refreshTokens: [String: RefreshToken] = [:]
    /// Browsers' sign-on sessions, by their cookie.
    var signOns: [String: SignOn] = [:]
    var pushed: [String: PushedRequest] = [:]
    /// The currently valid nonce, by provider and role.
    var nonces: [String: String] = [:]
    /// The last payments that `/api/payments` accepted.
    var payments: [JSON] = []
    /// The `jti`s of all proofs that the sandbox has received, and of all assertions to a provider with `profile: fapi2`.
    var proofs: Set<String> = []
    var idempotent: [String: (at: Double, body: String)] = [:]
    var zephrSessions: [String: ZephrSession] = [:]
    var zephrStateKeys: [String: ZephrStateKey] = [:]
    var zephrAccounts: Set<String> = []
    /// The earlier consents of users (Apple's name and Google's refresh token come only at the first consent).
    var consented: Set<String> = []
    private var pruneAbove = 100_000

    /// Deletes expired access tokens, codes that expired ten minutes ago, and spent refresh tokens without a valid successor.
    ///
    /// The first deletion happens above 100,000 access tokens. Each later one happens when their number has doubled since the
    /// last deletion.
    mutating func prune(now: Double) {
        guard accessTokens.count > pruneAbove else { return }
        accessTokens = accessTokens.filter { $0.value.expiresAt > now }
        codes = codes.filter { $0.value.expiresAt > now - 600 }
        let live = Set(refreshTokens.filter { !$0.value.spent }.keys)
        refreshTokens = refreshTokens.filter { token, known in
            !known.spent || known.successor.map(live.contains) == true
        }
        pruneAbove = max(100_000, accessTokens.count * 2)
    }

    /// Ends a sign-on session and all its grants.
    mutating func endSignOn(sid: String, at provider: String) {
        signOns = signOns.filter { $0.value.sid != sid || $0.value.provider != provider }
        for grant in grants.values where grant.sid == sid && grant.provider == provider { revoke(grant: grant.id) }
    }

    /// Makes all access tokens of a grant invalid.
    ///
    /// On some servers, each refresh makes the older access tokens invalid.
    mutating func voidAccessTokens(of grant: String, at now: Double) {
        for (token, access) in accessTokens where access.grant == grant { accessTokens[token]?.expiresAt = now }
    }

    /// Ends a grant, so that all its tokens become invalid.
    mutating func revoke(grant: String) {
        grants[grant]?.revoked = true
    }
}
