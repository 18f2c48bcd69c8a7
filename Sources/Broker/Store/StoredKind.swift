/// What kinds of rows a store has, in the order in which they are moved.
package enum StoredKind: String, Sendable, CaseIterable {
    case logins, handoffs, registrations, exchanges, sessions, outbox, leases, seals, audit
    case logoutTokens = "logout_tokens"
}
