/// The kinds of rows that a store has, in the order in which a copy moves them.
package enum StoredKind: String, Sendable, CaseIterable {
    case logins, handoffs, registrations, exchanges, sessions, outbox, leases, seals, audit
    case logoutTokens = "logout_tokens"
    case targetTokens = "audience_tokens"
    case importPairs = "import_pairs"
    case importGrants = "import_grants"
}
