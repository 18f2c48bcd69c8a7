/// A permission of an admin token (`management.admin_tokens.may`).
/// - `read`: list sessions and keys
/// - `end`: end sessions
/// - `maintain`: write backups and seal values again
/// - `configure`: compare configurations
/// - `export`: take sessions out with their tokens, sealed for a key of the caller's choice
package enum AdminPermission: String, Sendable, CaseIterable { case read, end, maintain, configure, export }
