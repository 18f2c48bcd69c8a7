/// Counts, moves and reseals rows, in the same way for every engine.
///
/// Rows are read in pages, in the order of their keys, so that other operations wait only for one page.
package protocol StoreAdministration: Sendable {
    /// Returns the number of rows of each kind.
    func rowCounts() async throws(StoreFailure) -> [StoredKind: Int]

    /// Counts the sessions that have neither ended nor lapsed.
    func liveSessions(now: WallTime) async throws(StoreFailure) -> Int

    /// Returns at most `limit` rows of a kind, in the order of their keys; each claim comes with its remaining time.
    func rows(of kind: StoredKind, after cursor: [UInt8]?, limit: Int) async throws(StoreFailure) -> StoredPage

    /// Inserts rows in one transaction; rows whose key exists are skipped, and audit records are always added.
    func insert(_ rows: [StoredRow]) async throws(StoreFailure)

    /// Reads at most `limit` values of a sealed column, in the order of their rows' keys.
    ///
    /// Returns those values that are sealed under another key than `keyID`.
    func sealedRows(
        of place: SealedPlace, notUnder keyID: String, after cursor: Digest?, limit: Int
    ) async throws(StoreFailure) -> SealedPage

    /// Replaces old envelopes by new ones, and returns the number of replacements.
    ///
    /// An envelope is replaced only if the old envelope is still stored, because a refresh may have stored newer tokens since
    /// the page was read.
    func reseal(_ rows: [ResealedRow]) async throws(StoreFailure) -> Int

    /// Returns, for each key id, the number of stored values that need this key.
    ///
    /// Only exchanges that were made since `exchangesSince` count, because the outcomes of older exchanges have expired.
    func keyUse(exchangesSince: WallTime) async throws(StoreFailure) -> [String: Int]
}

extension RefreshMarks {
    /// Returns the refresh marks with every time moved by `duration`.
    package func moved(by duration: Duration) -> RefreshMarks {
        var marks = self
        marks.claimUntil = claimUntil.map { $0 + duration }
        marks.takenOverAt = takenOverAt.map { $0 + duration }
        marks.holdUntil = holdUntil.map { $0 + duration }
        marks.firstEmptyAt = firstEmptyAt.map { $0 + duration }
        return marks
    }
}
