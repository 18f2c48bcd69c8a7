// Formats of records that may be bound to a device key. An older release refuses a record of a newer format and leaves its
// row unchanged. Bound records have such a format, so an older release cannot serve them without a proof. Unbound records
// keep the old format.

enum BindableFormat {
    static let unbound: UInt8 = 1
    static let bound: UInt8 = 2
    /// The format of a login's record that contains a key of the broker's, with the device's thumbprint if the login belongs to
    /// a device key.
    static let keyed: UInt8 = 3
}
