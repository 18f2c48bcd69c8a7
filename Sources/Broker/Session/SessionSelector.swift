/// Names sessions to list or end.
package enum SessionSelector: Sendable, Equatable {
    case token(Digest)
    case handle(SessionHandle)
    case subject(Digest)
    /// All of a subject's but the one of this token digest.
    case subjectExcept(Digest, current: Digest)
    case sid(Digest)
    /// What a logout token names, among these clients' sessions: with a `sid` those that have it, and those of the
    /// subject whose own id_token had none; without a `sid` all of the subject's.
    case logout(sid: Digest?, subject: Digest?, clients: [Digest])
    case provider(Digest)
    case client(Digest)
    case all
}

/// Where a listing goes on: after this time and handle.
///
/// Live sessions are listed by their creation, ended ones by their end.
package struct SessionCursor: Sendable, Equatable {
    package let moment: WallTime
    package let handle: SessionHandle

    package init(moment: WallTime, handle: SessionHandle) {
        self.moment = moment
        self.handle = handle
    }

    /// Creates the cursor that goes on after this row.
    package init(after row: SessionRow) { self.init(moment: row.endedAt ?? row.createdAt, handle: row.handle) }
}
