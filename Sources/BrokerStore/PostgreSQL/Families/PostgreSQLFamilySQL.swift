/// The statements for child sessions in PostgreSQL.
enum PostgreSQLFamilySQL {
    /// The children of a list of parents that are live at a given time.
    static let children = Statement(
        "children", "Bi",
        """
        SELECT \(PostgreSQLSessionSQL.columns) FROM \(PostgreSQLSessionSQL.walked)
        WHERE s.parent = ANY ($1) AND s.end_reason IS NULL AND st.idle_expires_at > $2 AND st.expires_at > $2
            AND s.format = 1 AND st.format = 1
        ORDER BY s.created_at, s.handle
        """)

    /// Locks a parent, so that its children are inserted one after the other, and a child is never inserted while the parent
    /// ends.
    static let lockParent = Statement(
        "lock_parent", "b", "SELECT token FROM session_states WHERE token = $1 FOR UPDATE")

    /// Inserts a child of a live parent, after `lockParent` in the same transaction.
    ///
    /// Values: the columns of `PostgreSQLSessionSQL.insert` and `insertState`, then the parent, the child's place, and the
    /// largest number of other places.
    static let insertChild = Statement(
        "insert_child", "btbbbbbiittbtb" + "iiiioiioo" + "bbi",
        """
        WITH parent AS MATERIALIZED (
            SELECT p.token FROM sessions p JOIN session_states pt ON pt.token = p.token
            WHERE p.token = $24 AND p.end_reason IS NULL AND p.parent IS NULL AND NOT pt.ended
                AND pt.idle_expires_at > $8 AND pt.expires_at > $8 AND p.format = 1 AND pt.format = 1),
        family AS MATERIALIZED (
            SELECT c.token, c.place, ct.idle_expires_at > $8 AND ct.expires_at > $8 AS lives
            FROM parent JOIN sessions c ON c.parent = parent.token JOIN session_states ct ON ct.token = c.token
            WHERE c.parent = $24 AND c.end_reason IS NULL),
        known AS MATERIALIZED (SELECT s.token FROM sessions s WHERE s.token = $1),
        room AS MATERIALIZED (
            SELECT parent.token FROM parent WHERE NOT EXISTS (SELECT FROM known) AND (SELECT count(*) FROM family WHERE place <> $25 AND lives) < $26),
        doomed AS MATERIALIZED (SELECT f.token, 'replaced' AS reason FROM family f, room WHERE f.place = $25),
        \(EndingSQL.steps(now: 8)),
        inserted AS (
            INSERT INTO sessions (\(PostgreSQLSessionSQL.insertedColumns), parent, place)
            SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $24, $25 FROM room),
        state AS (\(PostgreSQLSessionSQL.insertState) SELECT $1, $15, $16, $17, $18, $19, $20, $21, $22, $23 FROM room)
        SELECT (SELECT count(*) FROM parent), (SELECT count(*) FROM room) + (SELECT count(*) FROM known), b.token
        FROM (SELECT 1) one LEFT JOIN buried b ON true
        """)
}
