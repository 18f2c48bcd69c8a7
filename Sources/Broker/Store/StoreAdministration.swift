/// Counts, moves and seals again what a store holds: the same for every engine, so that no command names one.
///
/// Walks go in the order of the keys and in pages, so that none holds anything up for long.
package protocol StoreAdministration: Sendable {
    /// How many rows of each kind there are.
    func rowCounts() async throws(StoreFailure) -> [StoredKind: Int]

    /// How many sessions live: those that have neither ended nor run out.
    func liveSessions(now: WallTime) async throws(StoreFailure) -> Int

    /// Returns at most `limit` rows of a kind, in the order of their keys; the claims in them are lapsed or say what is left.
    func rows(of kind: StoredKind, after cursor: [UInt8]?, limit: Int) async throws(StoreFailure) -> StoredPage

    /// Inserts rows in one transaction; one whose key is there is left alone, audit records are appended.
    func insert(_ rows: [StoredRow]) async throws(StoreFailure)

    /// Looks through at most `limit` rows of a place, in the order of their keys, and returns the values that are sealed
    /// under another key than this one.
    func sealedRows(
        of place: SealedPlace, notUnder keyID: String, after cursor: Digest?, limit: Int
    ) async throws(StoreFailure) -> SealedPage

    /// Puts new envelopes in the place of old ones, each only where the old one still stands: a refresh may have committed
    /// meanwhile. Returns how many it replaced.
    func reseal(_ rows: [ResealedRow]) async throws(StoreFailure) -> Int

    /// How many stored values need each key, by its id; of the exchanges those made since then, whose answers can be
    /// repeated.
    func keyUse(exchangesSince: WallTime) async throws(StoreFailure) -> [String: Int]
}

/// A store with its administration.
package typealias AdministeredStore = BrokerStore & StoreAdministration
