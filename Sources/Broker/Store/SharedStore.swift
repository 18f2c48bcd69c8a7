/// The further operations of a store that several processes share.
///
/// A store for a single process does not implement this protocol, because its process has the only clock and gets no notices
/// from other processes.
package protocol SharedStore: Sendable {
    /// Calls `handler` with each notice about sessions that ended or changed on other replicas, from now on and from any
    /// thread.
    ///
    /// The first notice is `hearing` or `deaf`.
    func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void)

    /// Returns the store's present time.
    func time() async throws(StoreFailure) -> WallTime

    /// Returns whether the store's server certainly runs on another machine, with another clock.
    func isElsewhere() async throws(StoreFailure) -> Bool

    /// Returns the state of those sessions that exist and have not ended, including the changes of all replicas.
    func tokenVersions(of tokenDigests: [Digest]) async throws(StoreFailure) -> [StandingSession]

    /// Records that a proof was used, by its name, and remembers the name until `until`.
    ///
    /// Returns whether this is the proof's first use on any replica. The store forgets the name before `until` if its server
    /// crashes or another server takes the server's place.
    func takeProof(_ name: Digest, until: WallTime) async throws(StoreFailure) -> Bool

    /// Forgets a used proof, so that the proof may be sent again after its request failed.
    func returnProof(_ name: Digest) async throws(StoreFailure)
}

extension SharedStore {
    package func isElsewhere() async throws(StoreFailure) -> Bool { false }
}

/// The state of a session in the store, for listeners that have to learn about changes by other replicas.
package struct StandingSession: Sendable, Equatable {
    package let tokenDigest: Digest
    /// The version of the session's tokens.
    package let version: Int64
    /// Whether the session has a presence key.
    package let hasPresence: Bool

    package init(tokenDigest: Digest, version: Int64, hasPresence: Bool = false) {
        self.tokenDigest = tokenDigest
        self.version = version
        self.hasPresence = hasPresence
    }
}

/// A notice from other replicas about sessions that ended or changed there.
package enum EndingNotice: Sendable, Equatable {
    /// Notices of endings arrive from now on.
    case hearing
    /// Notices of endings fail to arrive, so caching must stop.
    case deaf
    case ended([EndedSession])
    /// The sessions that were stepped up and keep their token version, so that `tokenVersions` shows no change.
    case steppedUp([Digest])
    /// The sessions that were stepped up with another grant, or got a presence key. `tokenVersions` shows these changes.
    case changed([Digest])
}
