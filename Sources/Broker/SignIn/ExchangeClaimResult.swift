/// The result of claiming an exchange in the store.
package enum ExchangeClaimResult: Sendable, Equatable {
    /// The caller owns the exchange under this row's fence and may call the provider.
    case claimed(ExchangeRow)
    /// The exchange already exists, with this row.
    case existing(ExchangeRow)
    /// Another exchange has used up the login or registration, or it was burned, or it has expired.
    case gateClosed
}
