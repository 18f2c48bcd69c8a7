/// Reads the meaning of the old system's answer for a legacy token.
///
/// The rules are pure, and each has a row in the tests' table.
struct LegacyReading: Sendable {
    /// The result of an answer for the legacy token's row.
    enum Verdict: Sendable {
        /// The session has a refresh token, which the provider has to grant.
        case grant(Secret)
        /// The client believes the old system's word about the user.
        case believe(subject: String)
        /// The move is over; `note` is a text for the log.
        case spent(ExchangeRow.SpentReason, note: String?)
        /// The answer lacks a member, so the old system has to be mended.
        case unusable(String)
    }

    let policy: MoveInPolicy
    let now: WallTime

    func verdict(_ answer: LegacyAnswer) -> Verdict {
        guard case .session(let session) = answer else { return .spent(.unknownSession, note: nil) }
        if let end = session.expiresAt, end <= now { return .spent(.expired, note: nil) }
        if let token = session.refreshToken { return .grant(token) }
        guard policy.isBelieved else {
            return .spent(
                .unknownSession,
                note: "the old system's answer lacks a refresh token, and the client has `subject: confirmed`")
        }
        guard let subject = session.subject else { return .unusable("the old system's answer lacks `subject`") }
        guard session.expiresAt != nil else { return .unusable("the old system's answer lacks `expires_at`") }
        return .believe(subject: subject)
    }
}
