// Formats of records that may belong to a key. A bound record has its own format, because older releases must not serve it
// without a proof. For older releases, such a record is of a newer format, so they leave its row unchanged. The format of
// unbound records is unchanged.

enum BindableFormat {
    static let unbound: UInt8 = 1
    static let bound: UInt8 = 2
    /// The format of a login's record that contains a key of the broker's, with the device's thumbprint if the login belongs to
    /// a device key.
    static let keyed: UInt8 = 3
}
