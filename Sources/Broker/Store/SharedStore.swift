/// The abilities that only a store has that several processes share.
///
/// A store that serves one process does not conform: it has no clock but the process's, and nothing to tell that the
/// process does not know.
package protocol SharedStore: Sendable {
    /// Calls `handler` with what is heard of sessions that ended or changed on other replicas, from now on and from any thread:
    /// first whether anything is.
    func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void)

    /// Returns the store's time, as it is now.
    func time() async throws(StoreFailure) -> WallTime

    /// Returns whether the store's server is surely another machine, whose clock is not this one's.
    func isElsewhere() async throws(StoreFailure) -> Bool

    /// Returns how those sessions stand that are known and not ended, whoever changed them.
    func tokenVersions(of tokenDigests: [Digest]) async throws(StoreFailure) -> [StandingSession]

    /// Takes a proof by its name, which is remembered until a moment; returns whether nobody took it before, on any replica.
    ///
    /// It is forgotten when the server crashes or another takes its place.
    func takeProof(_ name: Digest, until: WallTime) async throws(StoreFailure) -> Bool

    /// Forgets a proof that was taken for what did not happen: it may be taken again.
    func returnProof(_ name: Digest) async throws(StoreFailure)
}

extension SharedStore {
    package func isElsewhere() async throws(StoreFailure) -> Bool { false }
}

/// The state of a session as listeners on other replicas want it.
package struct StandingSession: Sendable, Equatable {
    package let tokenDigest: Digest
    /// The version of its tokens.
    package let version: Int64
    /// Whether it has a presence key.
    package let hasPresence: Bool

    package init(tokenDigest: Digest, version: Int64, hasPresence: Bool = false) {
        self.tokenDigest = tokenDigest
        self.version = version
        self.hasPresence = hasPresence
    }
}

/// News of other replicas: the sessions that end there, and those that change there.
package enum EndingNotice: Sendable, Equatable {
    /// From now on their endings are heard.
    case hearing
    /// Their endings are not heard: nothing may be cached.
    case deaf
    case ended([EndedSession])
    /// The sessions that were stepped up and keep their tokens' version, by which `tokenVersions` would tell.
    case steppedUp([Digest])
    /// The sessions that were stepped up with another grant, or have a presence key now: `tokenVersions` tells listeners.
    case changed([Digest])
}
