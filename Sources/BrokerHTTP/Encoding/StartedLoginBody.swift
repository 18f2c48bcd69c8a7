import Broker

/// Writes started logins: the 201 of `POST /v1/logins`, and the member `login` of a `login_required` problem.
enum StartedLoginBody {
    static func bytes(_ login: StartedLogin) -> [UInt8] {
        var writer = JSONWriter(capacity: 512)
        writer.object { members(of: login, into: &$0) }
        return writer.bytes
    }

    /// Writes the members of a started login.
    ///
    /// The login token is included only for clients that keep no cookies.
    static func members(of login: StartedLogin, into writer: inout JSONWriter) {
        writer.member("login_id", login.loginID)
        writer.member("authorization_url", login.authorizationURL.reveal())
        if let url = login.appURL { writer.member("app_url", url.reveal()) }
        writer.member("state", login.state.reveal())
        writer.member("expires_at", login.expiresAt)
        if let openBy = login.openBy { writer.member("open_by", openBy) }
        if login.transport == .bearer { writer.member("login_token", login.loginToken.reveal()) }
    }
}
