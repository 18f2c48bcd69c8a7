/// The state itself.
struct Storage: Sendable {
    var baseURL = ""
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
    var pushed: [String: PushedRequest] = [:]
    var idempotent: [String: (at: Double, body: String)] = [:]
    var zephrSessions: [String: ZephrSession] = [:]
    var zephrStateKeys: [String: ZephrStateKey] = [:]
    var zephrAccounts: Set<String> = []
    var appleNamed: Set<String> = []
    var unauthorizedOnce: Set<String> = []

    /// Ends a grant: all its tokens stop working.
    mutating func revoke(grant: String) {
        grants[grant]?.revoked = true
    }
}
