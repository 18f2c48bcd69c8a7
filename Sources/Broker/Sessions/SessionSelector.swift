/// A selection of sessions to list or to end.
package enum SessionSelector: Sendable, Equatable {
    case token(Digest)
    case handle(SessionHandle)
    case subject(Digest)
    /// All sessions of a subject, except the session with the digest `current` and the children of this session.
    case subjectExcept(Digest, current: Digest)
    case sid(Digest)
    /// The sessions, among those of the given clients, that a logout token names.
    ///
    /// If the token has a `sid`, it names the sessions with that `sid`, and the subject's sessions whose own id_token had no
    /// `sid`. A token without a `sid` names all sessions of the subject.
    case logout(sid: Digest?, subject: Digest?, clients: [Digest])
    case provider(Digest)
    case client(Digest)
    case all

    /// Whether the selector names exactly one session.
    ///
    /// The named session may be a child. For all other selectors, children are listed only after their parents.
    package var namesOne: Bool {
        switch self {
        case .token, .handle: true
        case .subject, .subjectExcept, .sid, .logout, .provider, .client, .all: false
        }
    }
}
