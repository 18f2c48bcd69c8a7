/// The result of claiming an exchange in the store.
package enum ExchangeClaimResult: Sendable, Equatable {
    /// The caller owns the exchange under this row's fence and may call the provider.
    case claimed(ExchangeRow)
    /// The exchange already exists, with this row.
    case existing(ExchangeRow)
    /// The login or registration was used up by another exchange, was burned, or has expired.
    case gateClosed
}
