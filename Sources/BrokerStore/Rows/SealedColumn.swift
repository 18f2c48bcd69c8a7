import Broker

/// The columns of a sealed value, which have the same names in both engines.
struct SealedColumn {
    let table: String
    /// The column of the row's key.
    let key: String
    /// The column that says what the seal is bound to.
    let boundTo: String
    /// The column that says which key of the ring sealed it.
    let keyID: String
    let envelope: String

    init(of place: SealedPlace) {
        (table, key, boundTo, keyID, envelope) =
            switch place {
            case .facts: ("sessions", "token", "token", "facts_key", "facts")
            case .tokens: ("sessions", "token", "token", "tokens_key", "tokens")
            case .logins: ("logins", "state", "state", "sealed_key", "sealed")
            case .handoffs: ("handoffs", "login", "key", "sealed_key", "sealed")
            case .registrations: ("registrations", "key", "key", "sealed_key", "sealed")
            case .outbox: ("outbox", "key", "bound_to", "tokens_key", "tokens")
            }
    }
}

extension ColumnReader {
    /// Reads a line of a page of sealed values: its key, and the value unless a newer version's row holds it, or it is
    /// sealed as it should be.
    mutating func sealedValue(of place: SealedPlace) throws -> (key: Digest, row: SealedRow?) {
        let isKnown = try integer() <= Self.rowFormat
        let key = try digest()
        let boundTo = try digest()
        let sealed = try optionalSealed()
        guard isKnown, let sealed else { return (key, nil) }
        return (key, SealedRow(place: place, key: key, boundTo: boundTo, sealed: sealed))
    }
}

extension SealedPage {
    /// A page of what was listed by a query of so many lines.
    init(_ listed: [(key: Digest, row: SealedRow?)], limit: Int) {
        self.init(
            rows: listed.compactMap(\.row), next: listed.count < limit ? nil : listed.last?.key,
            seen: listed.count)
    }
}
