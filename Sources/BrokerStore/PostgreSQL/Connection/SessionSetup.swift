/// What is set for each connection that is ours alone; a pooler's connections get it from their role (note 22).
enum SessionSetup {
    /// Names and values; those that an engine does not know are left out.
    static let values: [(name: String, value: String)] = [
        ("statement_timeout", "5000"), ("lock_timeout", "4000"), ("idle_in_transaction_session_timeout", "10000"),
        ("default_transaction_isolation", "read committed"), ("plan_cache_mode", "force_generic_plan"),
        ("jit", "off"),
    ]

    /// What a commit has to wait for (guarantee 4); stronger settings stay.
    static let durable = ["on", "remote_apply"]

    static let sql = """
        SELECT set_config(s.name, v.value, false)
        FROM pg_settings s JOIN (VALUES \(list)) AS v (name, value) ON v.name = s.name;
        SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
        """

    private static let list = values.map { "('\($0.name)', '\($0.value)')" }.joined(separator: ", ")
}
