/// A row of any kind, as it is moved from one store to another.
package enum StoredRow: Sendable, Equatable {
    case login(LoginRow)
    case handoff(HandoffRow)
    case registration(RegistrationRow)
    /// An exchange; its claim moves with its remaining time.
    case exchange(ExchangeRow)
    /// A session; the times in its refresh marks are relative to the time of reading.
    case session(SessionRow, RefreshMarks)
    case outbox(OutboxRow)
    case targetToken(TargetTokenRow)
    case importPair(ImportPair)
    /// A client that has a granted import, and the time of its first grant.
    case importGrant(Digest, at: WallTime)
    case logoutToken(Digest, until: WallTime)
    case lease(name: String, owner: String, until: WallTime)
    /// The number of values that a key has sealed.
    case seals(key: String, count: Int)
    case audit(AuditRow)
}
