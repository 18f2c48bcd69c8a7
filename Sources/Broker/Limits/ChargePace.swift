/// The limit that sets how many items an address may begin in a minute.
enum ChargePace: Sendable {
    /// `limits.logins_per_minute`.
    case logins
    /// `import_tokens.per_minute` and `move_in.per_minute`.
    case imports
}
