/// An ended session with its reason.
package struct EndedSession: Sendable, Equatable {
    package let tokenDigest: Digest
    package let reason: EndReason

    package init(tokenDigest: Digest, reason: EndReason) {
        self.tokenDigest = tokenDigest
        self.reason = reason
    }
}
