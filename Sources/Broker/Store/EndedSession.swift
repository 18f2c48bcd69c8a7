/// A session that ended, and why.
package struct EndedSession: Sendable, Equatable {
    package let token: Digest
    package let reason: EndReason

    package init(token: Digest, reason: EndReason) {
        self.token = token
        self.reason = reason
    }
}
