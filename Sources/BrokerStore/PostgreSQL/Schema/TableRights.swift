package import Broker

/// The rights that the broker's role needs on the broker's tables.
///
/// A migration that another role has run may leave tables that the broker's role cannot use. Triggers run as the role of the
/// statement that fires them, so missing rights on one table can fail statements on another.
enum TableRights {
    private static let all = ["SELECT", "INSERT", "UPDATE", "DELETE"]

    /// The tables of the newest schema, each with the needed rights.
    ///
    /// A migration that adds a table adds it here.
    static let needed: [(table: String, rights: [String])] =
        [
            "audience_tokens", "exchanges", "handoffs", "import_grants", "import_pairs", "key_seals", "leases",
            "logins",
            "logout_tokens", "outbox", "registrations", "session_states", "sessions", "taken_proofs",
        ].map { ($0, all) } + [("audit", ["SELECT", "INSERT"]), ("schema_version", ["SELECT"])]

    /// Returns one text with the role and the rights that the role lacks; null if it has all.
    ///
    /// Missing tables are left out, because the migration reports them.
    static let lacking = Statement(
        "lacking_rights", [:],
        """
        SELECT 'the role ' || current_user || ' lacks ' || string_agg(rights || ' on ' || name, '; ' ORDER BY name)
        FROM (
            SELECT t.name, string_agg(r.name, ', ' ORDER BY r.place) AS rights
            FROM (VALUES \(rows)) t (name, rights), unnest(t.rights) WITH ORDINALITY r (name, place)
            WHERE NOT has_table_privilege(to_regclass(t.name), r.name)
            GROUP BY t.name
        ) lacking
        """)

    private static var rows: String {
        needed.map { table, rights in
            "('\(table)', ARRAY[\(rights.map { "'\($0)'" }.joined(separator: ", "))])"
        }.joined(separator: ", ")
    }
}

extension PostgreSQLStore {
    /// Returns the rights that the broker's role lacks, in a sentence for the operator; nil if it has all.
    package func lackingRights() async throws(StoreFailure) -> String? {
        try await read(TableRights.lacking, [:]) { rows in try rows.first { try $0.optionalText() } ?? nil }
    }

    /// Returns the rights that the broker's role lacks; used by a command, over a connection of its own.
    package static func lackingRights(_ settings: ConnectionSettings) async throws(StoreOpenFailure) -> String? {
        try await connected(settings) { connection throws(StoreOpenFailure) in
            try connection.execute(TableRights.lacking.sql, within: .seconds(5)).first ?? nil
        }
    }
}
