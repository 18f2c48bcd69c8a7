/// The method and address that a proof has to match with `htm` and `htu`.
package struct ProofTarget: Sendable {
    package enum Address: Sendable {
        /// A route of this broker.
        ///
        /// `path` is the path in the request, without its query. The proof's `htu` may begin with any of the broker's origins.
        case own(path: String)
        /// The address of the backend's route that the app called; nil if the address is malformed.
        ///
        /// The backend sends the address to the broker, and the broker checks the proof.
        case foreign(ProofAddress?)
    }

    package let method: String
    package let address: Address

    package init(method: String, address: Address) {
        self.method = method
        self.address = address
    }

    /// Whether the method is safe (RFC 9110 section 9.2.1).
    ///
    /// Used proofs by a session's own key for a safe method are remembered only in this process. All other used proofs are also
    /// recorded in the store that the replicas share.
    var isSafe: Bool { ["GET", "HEAD", "OPTIONS", "TRACE"].contains(method) }
}
