/// Stores imports, which are exchanges of tokens that an app already holds.
///
/// At most two calls with one token are granted or have an unknown fate. The row has their number before each call is sent, so
/// replicas and restarts count together. A code has one such call, and `ExchangeStore` has its operations.
package protocol ImportStore: Sendable {
    /// Claims an import: inserts `row` with the outcome `.calling`, unless a row with its key exists.
    ///
    /// If a row exists, `ExchangeRow.verdict` decides. A claim that is granted again has the new starter's proof and salt, and a
    /// fence that is higher by 1. If the row lacks a kept pair, the claim also counts one call more. The claim's
    /// `mostCalls` is the limit of this number.
    func claimImport(_ row: ExchangeRow, sparing: SparedClaims) async throws(StoreFailure) -> ExchangeClaimResult

    /// Releases an import (`.calling` with this fence → `.released`); returns false if `fence` is out of date.
    ///
    /// The number of calls of a row with a kept pair stays. Another row whose number of calls is 0 is kept for
    /// `ImportMarks.shortPeriod`.
    func releaseImport(_ key: Digest, fence: Int64, _ release: ImportRelease) async throws(StoreFailure) -> Bool

    /// Writes the number of an import's calls before the confirming call is sent; returns false if `fence` is out of date.
    func countImportCall(_ key: Digest, fence: Int64, calls: Int) async throws(StoreFailure) -> Bool

    /// Keeps the provider's answer in one transaction with its row.
    ///
    /// Returns false if `fence` is out of date, or if the kept pair has a higher `number`.
    ///
    /// A newer pair replaces the kept one, and the time of the first pair stays. The pair is deleted when the exchange is
    /// settled. After `ImportMarks.pairPeriod`, a sweep moves it to the outbox and spends the exchange as `.expired`, unless a
    /// claim of the exchange exists.
    func keepPair(
        _ pair: ImportPair, as number: Int, fence: Int64, at now: WallTime
    ) async throws(StoreFailure) -> Bool

    /// Returns the kept pair of an exchange.
    func keptPair(_ key: Digest) async throws(StoreFailure) -> ImportPair?

    /// Records that the provider has granted an import; `key` is the digest of the provider and the client's id there.
    ///
    /// The first record stays.
    func noteImportGrant(_ key: Digest, at now: WallTime) async throws(StoreFailure)

    /// Returns whether the provider has granted an import before.
    func hasImportGrant(_ key: Digest) async throws(StoreFailure) -> Bool
}
