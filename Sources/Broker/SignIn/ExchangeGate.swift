/// The login or registration row that an exchange uses up in the transaction of its claim, so that only one exchange uses it.
package enum ExchangeGate: Sendable, Equatable {
    /// No row, because the broker stored no login or registration, for example in flow B.
    case none
    /// A pending, unexpired login, by its state digest.
    case login(Digest)
    /// An open, unexpired registration, by its key.
    case registration(Digest)
}
