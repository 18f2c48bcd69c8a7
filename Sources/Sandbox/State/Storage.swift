/// The state itself.
struct Storage: Sendable {
    var baseURL = ""
    /// The base URL of the listener that asks for certificates; empty for none.
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
    /// The nonce that is good now, by provider and side.
    var nonces: [String: String] = [:]
    /// The last payments that `/api/payments` took.
    var payments: [JSON] = []
    /// The `jti`s of all proofs.
    var proofs: Set<String> = []
    var idempotent: [String: (at: Double, body: String)] = [:]
    var zephrSessions: [String: ZephrSession] = [:]
    var zephrStateKeys: [String: ZephrStateKey] = [:]
    var zephrAccounts: Set<String> = []
    /// The consents of users that were given before (Apple's name, Google's refresh token come at the first time).
    var consented: Set<String> = []
    private var pruneAbove = 100_000

    /// Under load, forgets what has long expired: each time the number of access tokens has doubled.
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

    /// Ends a sign-on session: it goes, and with it every grant that came from it.
    mutating func endSignOn(sid: String, at provider: String) {
        signOns = signOns.filter { $0.value.sid != sid || $0.value.provider != provider }
        for grant in grants.values where grant.sid == sid && grant.provider == provider { revoke(grant: grant.id) }
    }

    /// Ends a grant's access tokens: there are servers where each refresh does.
    mutating func voidAccessTokens(of grant: String, at now: Double) {
        for (token, access) in accessTokens where access.grant == grant { accessTokens[token]?.expiresAt = now }
    }

    /// Ends a grant: all its tokens stop working.
    mutating func revoke(grant: String) {
        grants[grant]?.revoked = true
    }
}
