/// The settings that the broker makes on each direct connection.
///
/// Connections through a pooler get these settings from the database role.
enum SessionSetup {
    /// The names and values of the settings.
    ///
    /// A setting that the server does not know is skipped.
    static let values: [(name: String, value: String)] = [
        ("statement_timeout", "5000"), ("lock_timeout", "4000"), ("idle_in_transaction_session_timeout", "10000"),
        ("default_transaction_isolation", "read committed"), ("plan_cache_mode", "force_generic_plan"),
        ("jit", "off"),
    ]

    /// The values of `synchronous_commit` that suffice (guarantee 4).
    ///
    /// A stronger setting of the operator is kept.
    static let durable = ["on", "remote_apply"]

    static let sql = """
        SELECT set_config(s.name, v.value, false)
        FROM pg_settings s JOIN (VALUES \(list)) AS v (name, value) ON v.name = s.name;
        SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
        """

    private static let list = values.map { "('\($0.name)', '\($0.value)')" }.joined(separator: ", ")
}
