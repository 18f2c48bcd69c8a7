/// Tells of sessions that ended on other replicas.
///
/// A store that serves one process has nothing to tell and does not conform.
package protocol EndingNotices: Sendable {
    /// Calls `handler` with what is heard from now on, from any thread: first whether anything is.
    func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void)
}

/// What is heard of other replicas.
package enum EndingNotice: Sendable, Equatable {
    /// From now on their endings are heard.
    case hearing
    /// Their endings are not heard: nothing may be cached.
    case deaf
    case ended([EndedSession])
}
