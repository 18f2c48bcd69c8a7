/// The lifetimes of a client's sessions (SEC-40).
package struct SessionLifetimes: Sendable, Equatable {
    /// The longest time between two uses of a session.
    ///
    /// After a longer time, the session ends.
    package var idle: Duration
    /// The longest life of a session, however often it is used.
    package var absolute: Duration

    package init(idle: Duration = .seconds(30 * 86_400), absolute: Duration = .seconds(90 * 86_400)) {
        self.idle = idle
        self.absolute = absolute
    }
}
