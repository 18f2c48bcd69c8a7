/// The statements for child sessions.
enum FamilySQL {
    static let children = NamedSQL(
        """
        SELECT \(SessionSQL.columns) FROM sessions
        WHERE parent = :parent AND ended_at IS NULL AND idle_expires_at > :now AND expires_at > :now AND format = 1
        ORDER BY created_at, handle
        """)
    /// Finds a session that may have children at the given time.
    static let parent = NamedSQL(
        """
        SELECT 1 FROM sessions
        WHERE token = :token AND ended_at IS NULL AND idle_expires_at > :now AND expires_at > :now AND parent IS NULL
            AND format = 1
        """)
    /// Finds the child, live or lapsed, that has a place in a family.
    static let inPlace = NamedSQL(
        "SELECT id, token FROM sessions WHERE parent = :parent AND ended_at IS NULL AND place = :place")
    static let otherPlaces = NamedSQL(
        """
        SELECT count(*) FROM sessions
        WHERE parent = :parent AND ended_at IS NULL AND place <> :place AND idle_expires_at > :now AND expires_at > :now
        """)
}
