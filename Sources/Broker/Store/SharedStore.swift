/// The abilities that only a store has that several processes share.
///
/// A store that serves one process does not conform: it has no clock but the process's, and nothing to tell that the
/// process does not know.
package protocol SharedStore: Sendable {
    /// Calls `handler` with what is heard of sessions that ended on other replicas, from now on and from any thread: first
    /// whether anything is.
    func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void)

    /// Returns the store's time, as it is now.
    func time() async throws(StoreFailure) -> WallTime

    /// Returns the versions of the tokens of those sessions that are known and not ended, whoever refreshed them.
    func tokenVersions(of tokenDigests: [Digest]) async throws(StoreFailure) -> [(tokenDigest: Digest, version: Int64)]

    /// Takes a proof by its name, which is remembered until a moment; returns whether nobody took it before, on any replica.
    ///
    /// It is forgotten when the server crashes or another takes its place.
    func takeProof(_ name: Digest, until: WallTime) async throws(StoreFailure) -> Bool
}

/// News of other replicas: the sessions that end there, and those that were stepped up there.
package enum EndingNotice: Sendable, Equatable {
    /// From now on their endings are heard.
    case hearing
    /// Their endings are not heard: nothing may be cached.
    case deaf
    case ended([EndedSession])
    /// The sessions that keep their tokens' version, by which `tokenVersions` would tell.
    case steppedUp([Digest])
}
