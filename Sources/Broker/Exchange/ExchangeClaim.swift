/// What an exchange takes along when it is claimed; taken in the same transaction, so that it is used once.
package enum ExchangeGate: Sendable, Equatable {
    /// Nothing: flow B.
    case none
    /// A pending, unexpired login, by its state digest.
    case login(Digest)
    /// An open, unexpired registration, by its key.
    case registration(Digest)
}

/// The answer to a claim.
package enum ExchangeClaimResult: Sendable, Equatable {
    /// The caller owns it under this row's fence and may call the provider.
    case claimed(ExchangeRow)
    /// It stands already; the row as it is.
    case existing(ExchangeRow)
    /// The login or registration cannot be taken any more (taken by another exchange, burned, or expired).
    case gateClosed
}
