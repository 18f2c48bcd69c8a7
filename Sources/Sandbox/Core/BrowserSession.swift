import Hummingbird

/// The cookie of a provider in a browser, and the single sign-on session that it identifies.
struct BrowserSession {
    let server: any AuthorizationServer
    let call: Call

    private var cookieName: String { "sandbox-" + server.name }
    private var isOn: Bool { call.settings.flag("sso") }

    /// The browser's session at this provider; nil if there is none.
    var signOn: SignOn? {
        guard isOn, let cookie = call.cookie(cookieName) else { return nil }
        let known = call.state.with { $0.signOns[cookie] }
        return known.flatMap { $0.provider == server.name ? $0 : nil }
    }

    /// Records a sign-in.
    ///
    /// If the browser's session belongs to the same user, this session continues. Otherwise a new session begins. Each sign-in
    /// gives the cookie a new value. Returns nil if the provider keeps no sessions.
    func signedIn(
        _ user: String, at time: Double, class authenticationClass: String, client: String, sid: String?
    ) -> (SignOn, cookie: String)? {
        guard isOn else { return nil }
        var session =
            signOn.flatMap { $0.user == user ? $0 : nil }
            ?? SignOn(
                provider: server.name, user: user, authenticatedAt: time, authenticationClass: authenticationClass,
                sid: sid ?? Random.token("sid-", bytes: 12))
        session.authenticatedAt = time
        session.authenticationClass = authenticationClass
        session.sid = sid ?? session.sid
        session.clients.insert(client)
        let cookie = Random.token()
        let (kept, old) = (session, call.cookie(cookieName))
        call.state.with { storage in
            if let old { storage.signOns[old] = nil }
            storage.signOns[cookie] = kept
        }
        return (session, "\(cookieName)=\(cookie); Path=/; HttpOnly; SameSite=Lax")
    }

    /// Ends the browser's session; returns false if the browser has none.
    func end() -> Bool {
        guard let session = signOn else { return false }
        call.state.with { $0.endSignOn(sid: session.sid, at: server.name) }
        return true
    }
}
