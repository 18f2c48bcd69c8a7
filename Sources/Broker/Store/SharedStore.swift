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
    /// Returns whether this is the proof's first use on any replica. The store forgets the name before `until` if the database
    /// server crashes or is replaced by another server.
    func takeProof(_ name: Digest, until: WallTime) async throws(StoreFailure) -> Bool

    /// Forgets a used proof, so that the proof may be sent again after its request failed.
    func returnProof(_ name: Digest) async throws(StoreFailure)
}

extension SharedStore {
    package func isElsewhere() async throws(StoreFailure) -> Bool { false }
}
