import Broker

/// A session that is to be ended: its row's id and its digest.
///
/// The digest is nil if its column is damaged. The row's format is ignored, because an ending changes only columns that every
/// format keeps.
struct NamedSession {
    let id: Int64
    let tokenDigest: Digest?

    /// Reads `id, token`.
    init(_ columns: inout Columns) throws {
        id = try columns.integer()
        tokenDigest = try? columns.digest()
    }
}
