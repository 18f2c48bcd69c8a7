/// A row of any kind, as it is moved from one store to another.
package enum StoredRow: Sendable, Equatable {
    case login(LoginRow)
    case handoff(HandoffRow)
    case registration(RegistrationRow)
    /// What is left of its claim goes along.
    case exchange(ExchangeRow)
    /// The marks' moments are counted from the moment of the reading.
    case session(SessionRow, RefreshMarks)
    case outbox(OutboxRow)
    case logoutToken(Digest, until: WallTime)
    case lease(name: String, owner: String, until: WallTime)
    /// How often a key has sealed.
    case seals(key: String, count: Int)
    case audit(AuditRow)
}

extension RefreshMarks {
    /// Returns the marks with every moment moved by so much.
    package func moved(by duration: Duration) -> RefreshMarks {
        var marks = self
        marks.claimUntil = claimUntil.map { $0 + duration }
        marks.takenOverAt = takenOverAt.map { $0 + duration }
        marks.holdUntil = holdUntil.map { $0 + duration }
        marks.firstEmptyAt = firstEmptyAt.map { $0 + duration }
        return marks
    }
}
