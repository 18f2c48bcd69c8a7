/// The request that a proof has to match in method and address (`htm`, `htu`).
package struct ProofTarget: Sendable {
    package enum Address: Sendable {
        /// A path of this broker, as the request names it and without its query; the proof may name any of the broker's
        /// origins.
        case own(path: String)
        /// The address of a backend that the app called. The backend sends the address to the broker, which checks the
        /// proof. It is nil if it is malformed.
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
    /// A used proof of a session's own key for a safe method is remembered only in this process. Other used proofs are also
    /// recorded in the shared store.
    var isSafe: Bool { ["GET", "HEAD", "OPTIONS", "TRACE"].contains(method) }
}
