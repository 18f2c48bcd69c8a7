/// A call's presence proof after its check, before it is used up.
package struct JudgedPresence: Sendable {
    /// Verifies the proof's signature and uses up the proof, so that each replica refuses a second use.
    ///
    /// Throws if the signature is wrong, another call used the proof first, the session has used too many proofs, or the store
    /// is unavailable.
    package let take: @Sendable () async throws(BrokerProblem) -> Void
    /// Makes the proof usable again, after a call that provably never reached the upstream.
    ///
    /// The app may then send the same proof again.
    package let giveBack: @Sendable () async -> Void

    package init(
        take: @escaping @Sendable () async throws(BrokerProblem) -> Void,
        giveBack: @escaping @Sendable () async -> Void
    ) {
        self.take = take
        self.giveBack = giveBack
    }
}
