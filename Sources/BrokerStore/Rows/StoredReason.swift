import Broker

extension EndReason {
    /// The reason as the column `end_reason` has it.
    ///
    /// An exported session has the reason `admin` and a mark, so that earlier releases can read the row.
    var stored: String { (self == .exported ? EndReason.admin : self).rawValue }

    /// The expression of a session's reason, for a row of `table` (with a point, or empty).
    static func column(of table: String) -> String {
        "CASE WHEN \(table)exported THEN '\(EndReason.exported.rawValue)' ELSE \(table)end_reason END"
    }
}
