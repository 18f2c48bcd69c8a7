/// The presence proof of a call, checked but not used up yet.
package struct JudgedPresence: Sendable {
    /// Uses up the proof, for all replicas together.
    ///
    /// Throws if the signature is wrong, another call used the proof first, the session has used too many proofs, or the store
    /// is unavailable.
    package let take: @Sendable () async throws(BrokerProblem) -> Void
    /// Releases the proof after a call that provably never reached the upstream, so that the app may send the same proof again.
    package let giveBack: @Sendable () async -> Void

    package init(
        take: @escaping @Sendable () async throws(BrokerProblem) -> Void,
        giveBack: @escaping @Sendable () async -> Void
    ) {
        self.take = take
        self.giveBack = giveBack
    }
}
