/// The statements for child sessions.
enum FamilySQL {
    static let children = """
        SELECT \(SessionSQL.columns) FROM sessions
        WHERE parent = ?1 AND ended_at IS NULL AND idle_expires_at > ?2 AND expires_at > ?2 AND format = 1
        ORDER BY created_at, handle
        """
    /// Finds a session that may have children at the given time.
    static let parent = """
        SELECT 1 FROM sessions
        WHERE token = ?1 AND ended_at IS NULL AND idle_expires_at > ?2 AND expires_at > ?2 AND parent IS NULL
            AND format = 1
        """
    /// Finds the child, live or lapsed, that has a place in a family.
    static let inPlace = "SELECT id, token FROM sessions WHERE parent = ?1 AND ended_at IS NULL AND place = ?2"
    static let otherPlaces = """
        SELECT count(*) FROM sessions
        WHERE parent = ?1 AND ended_at IS NULL AND place <> ?2 AND idle_expires_at > ?3 AND expires_at > ?3
        """
}
