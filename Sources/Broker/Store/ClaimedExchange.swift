/// An exchange as a claimed row.
///
/// When the claim of an exchange lapses, the exchange becomes spent, or another owner can claim an import. Other callers wait for
/// the owner of a lapsed claim only if the store was unavailable during the claim.
struct ClaimedExchange: ClaimedRow {
    let context: BrokerContext
    let key: Digest
    var isImport = false

    private var store: any BrokerStore { context.store }

    /// The lapsed claims that only their owners may continue now.
    ///
    /// If this process is still working on the exchange, every lapsed claim of the exchange is spared. The process may have been
    /// suspended for longer than the claim lasts.
    var spared: SparedClaims {
        guard !context.memory.exchanges.contains(key) else { return .all }
        return context.memory.store.spared(context.settings.claimLifetime, at: context.clock.monotonic())
    }

    static let renewal: StaticString = "renewExchange"
    static let pauseBeforeGivingBack = Duration.zero
    static let grace = Duration.zero

    func claim(_ row: ExchangeRow) async throws(StoreFailure) -> ExchangeClaimResult {
        guard !isImport else { return try await store.claimImport(row, sparing: spared) }
        return try await store.claimExchange(row, maximumAttempts: ExchangeRunner.maximumAttempts, sparing: spared)
    }

    func giveBack(_ answer: ExchangeClaimResult, to row: ExchangeRow) async throws(StoreFailure) {
        guard case .claimed(let claimed) = answer else { return }
        if isImport {
            _ = try await store.releaseImport(
                claimed.key, fence: claimed.fence, ImportRelease(calls: max(claimed.attempts - 1, 0)))
        } else {
            _ = try await store.releaseExchange(claimed.key, fence: claimed.fence, countingAttempt: false)
        }
    }

    func renew(_ fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool {
        try await store.renewExchange(key, fence: fence, for: lifetime)
    }
}
