/// `paths` of a Zephr site; the defaults are the documented ones.
package struct ZephrPaths: Sendable, Equatable {
    /// `start`: of every platform that `start_paths` does not name.
    package var start: String
    /// `account`: the probe that says whose a session is.
    package var account: String
    /// The setting `register`.
    package var register: String
    /// The setting `logout`.
    package var logout: String
    /// The setting `schema`.
    package var schema: String
    /// `anonymous_session`: a session with which the schema may be read.
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
