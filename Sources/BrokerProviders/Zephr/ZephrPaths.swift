/// `paths` of a Zephr site, with the documented defaults.
package struct ZephrPaths: Sendable, Equatable {
    /// `start`: the path for every platform that `start_paths` omits.
    package var start: String
    /// `account`: the call that returns a session's user.
    package var account: String
    /// The setting `register`.
    package var register: String
    /// The setting `logout`.
    package var logout: String
    /// The setting `schema`.
    package var schema: String
    /// `anonymous_session`: the call for a session that may read the schema.
    package var anonymousSession: String

    package init(
        start: String = "/blaize/oauth/{provider}", account: String = "/blaize/account",
        register: String = "/blaize/register", logout: String = "/blaize/logout",
        schema: String = "/blaize/schema/users", anonymousSession: String = "/blaize/anonymous-session"
    ) {
        self.start = start
        self.account = account
        self.register = register
        self.logout = logout
        self.schema = schema
        self.anonymousSession = anonymousSession
    }
}
