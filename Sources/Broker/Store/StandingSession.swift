/// The state of a session in the store.
///
/// Event streams learn from it about changes by other replicas.
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
