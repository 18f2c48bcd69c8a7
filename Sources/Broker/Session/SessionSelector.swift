/// Names sessions to list or end.
package enum SessionSelector: Sendable, Equatable {
    case token(Digest)
    case handle(SessionHandle)
    case subject(Digest)
    /// All of a subject's but the one of this token digest.
    case subjectExcept(Digest, current: Digest)
    case sid(Digest)
    case provider(Digest)
    case client(Digest)
    case all
}

/// Is where a listing goes on: after this creation time and handle.
package struct SessionCursor: Sendable, Equatable {
    package let createdAt: WallTime
    package let handle: SessionHandle

    package init(createdAt: WallTime, handle: SessionHandle) {
        self.createdAt = createdAt
        self.handle = handle
    }
}
