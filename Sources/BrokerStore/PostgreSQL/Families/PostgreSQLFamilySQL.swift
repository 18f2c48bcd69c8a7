/// The statements for child sessions in PostgreSQL.
enum PostgreSQLFamilySQL {
    /// The children of a list of parents that are live at a given time.
    static let children = Statement(
        "children", ["parents": .bytesList, "now": .integer],
        """
        SELECT \(PostgreSQLSessionSQL.columns) FROM \(PostgreSQLSessionSQL.walked)
        WHERE s.parent = ANY (:parents) AND s.end_reason IS NULL AND st.idle_expires_at > :now AND st.expires_at > :now
            AND s.format = 1 AND st.format = 1
        ORDER BY s.created_at, s.handle
        """)

    /// Locks a parent, so that its children are inserted one after the other, and a child is never inserted while the parent
    /// ends.
    static let lockParent = Statement(
        "lock_parent", ["token": .bytes], "SELECT token FROM session_states WHERE token = :token FOR UPDATE")

    /// Inserts a child of a live parent, after `lockParent` in the same transaction.
    ///
    /// `other_places` is the largest number of places that the family may have in addition to this one.
    static let insertChild = Statement(
        "insert_child", PostgreSQLSessionSQL.inserted + ["parent": .bytes, "place": .bytes, "other_places": .integer],
        """
        WITH parent AS MATERIALIZED (
            SELECT p.token FROM sessions p JOIN session_states pt ON pt.token = p.token
            WHERE p.token = :parent AND p.end_reason IS NULL AND p.parent IS NULL AND NOT pt.ended
                AND pt.idle_expires_at > :created_at AND pt.expires_at > :created_at AND p.format = 1 AND pt.format = 1),
        family AS MATERIALIZED (
            SELECT c.token, c.place, ct.idle_expires_at > :created_at AND ct.expires_at > :created_at AS lives
            FROM parent JOIN sessions c ON c.parent = parent.token JOIN session_states ct ON ct.token = c.token
            WHERE c.parent = :parent AND c.end_reason IS NULL),
        known AS MATERIALIZED (SELECT s.token FROM sessions s WHERE s.token = :token),
        room AS MATERIALIZED (
            SELECT parent.token FROM parent
            WHERE NOT EXISTS (SELECT FROM known)
                AND (SELECT count(*) FROM family WHERE place <> :place AND lives) < :other_places),
        doomed AS MATERIALIZED (SELECT f.token, 'replaced' AS reason FROM family f, room WHERE f.place = :place),
        \(EndingSQL.steps(now: ":created_at")),
        inserted AS (
            INSERT INTO sessions (\(PostgreSQLSessionSQL.insertedColumns), parent, place)
            SELECT \(PostgreSQLSessionSQL.insertedValues), :parent, :place FROM room),
        state AS (\(PostgreSQLSessionSQL.insertState) SELECT :token, \(PostgreSQLSessionSQL.insertedState) FROM room)
        SELECT (SELECT count(*) FROM parent), (SELECT count(*) FROM room) + (SELECT count(*) FROM known), b.token
        FROM (SELECT 1) one LEFT JOIN buried b ON true
        """)
}
