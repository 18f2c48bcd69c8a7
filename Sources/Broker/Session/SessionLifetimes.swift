/// How long a client's sessions live (SEC-40).
package struct SessionLifetimes: Sendable, Equatable {
    /// Ends a session that nobody used for this long.
    package var idle: Duration
    /// Ends a session this long after its login, whatever happens.
    package var absolute: Duration

    package init(idle: Duration = .seconds(30 * 86_400), absolute: Duration = .seconds(90 * 86_400)) {
        self.idle = idle
        self.absolute = absolute
    }
}
