import Broker

/// The columns of a sealed value, which have the same names in both engines.
struct SealedColumn {
    let table: String
    /// The column that contains the row's key.
    let key: String
    /// The column that contains the digest which the seal is bound to.
    let boundTo: String
    /// The column that contains the id of the ring's key.
    let keyID: String
    let envelope: String

    init(of place: SealedPlace) {
        (table, key, boundTo, keyID, envelope) =
            switch place {
            case .facts: ("sessions", "token", "token", "facts_key", "facts")
            case .tokens: ("sessions", "token", "token", "tokens_key", "tokens")
            case .presence: ("sessions", "token", "token", "presence_key", "presence")
            case .logins: ("logins", "state", "state", "sealed_key", "sealed")
            case .handoffs: ("handoffs", "login", "key", "sealed_key", "sealed")
            case .registrations: ("registrations", "key", "key", "sealed_key", "sealed")
            case .outbox: ("outbox", "key", "bound_to", "tokens_key", "tokens")
            case .targetTokens: ("audience_tokens", "key", "key", "sealed_key", "sealed")
            case .importPairs: ("import_pairs", "key", "key", "sealed_key", "sealed")
            }
    }
}
