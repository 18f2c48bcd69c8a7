/// A row that one owner at a time calls a provider for: an exchange, or a session whose tokens are refreshed.
///
/// Which claim is granted, and what becomes of one that lapsed, is the store's to decide, by rules that differ: a lapsed
/// exchange is spent, a lapsed refresh is taken over.
protocol ClaimedRow: Sendable {
    /// What is claimed, under the claim's name.
    associatedtype Request: Sendable
    associatedtype Answer: Sendable

    /// The name of the store's operation that renews.
    static var renewal: StaticString { get }
    /// How long it takes until the first try to give back a claim that may stand although nobody will call.
    static var pauseBeforeGivingBack: Duration { get }
    /// For how long after its lifetime a claim keeps the others from claiming.
    static var grace: Duration { get }

    /// Claims; asking again under the same name gets the same claim.
    func claim(_ request: Request) async throws(StoreFailure) -> Answer

    /// Gives back what a claim was granted, as if it had not been claimed; nothing when it was not granted.
    func giveBack(_ answer: Answer, to request: Request) async throws(StoreFailure)

    /// Lets a claim stand for so long from now; false when it is another's.
    func renew(_ fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool
}

/// An exchange as a claimed row: one that lapses is spent, so that it keeps nobody waiting.
struct ClaimedExchange: ClaimedRow {
    let store: any BrokerStore
    let key: Digest

    static let renewal: StaticString = "renewExchange"
    static let pauseBeforeGivingBack = Duration.zero
    static let grace = Duration.zero

    func claim(_ row: ExchangeRow) async throws(StoreFailure) -> ExchangeClaimResult {
        try await store.claimExchange(row, maximumAttempts: ExchangeRunner.maximumAttempts)
    }

    func giveBack(_ answer: ExchangeClaimResult, to row: ExchangeRow) async throws(StoreFailure) {
        guard case .claimed(let claimed) = answer else { return }
        _ = try await store.releaseExchange(claimed.key, fence: claimed.fence, countingAttempt: false)
    }

    func renew(_ fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool {
        try await store.renewExchange(key, fence: fence, for: lifetime)
    }
}

/// A session as a claimed row: a refresh that lapses is left to its owner for a while, and then taken over.
struct ClaimedSession: ClaimedRow {
    let store: any BrokerStore
    let token: Digest

    static let renewal: StaticString = "renewRefresh"
    static let pauseBeforeGivingBack = Duration.milliseconds(500)
    static let grace = RefreshMarks.grace

    func claim(_ claim: RefreshClaim) async throws(StoreFailure) -> RefreshClaimResult {
        try await store.claimRefresh(claim)
    }

    func giveBack(_ answer: RefreshClaimResult, to claim: RefreshClaim) async throws(StoreFailure) {
        guard case .claimed(let grant) = answer else { return }
        try await store.releaseRefresh(
            RefreshRelease(
                token: claim.token, tokenVersion: claim.tokenVersion, fence: grant.fence, holdBack: .zero))
    }

    func renew(_ fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool {
        try await store.renewRefresh(token: token, fence: fence, for: lifetime)
    }
}

/// A claim's name: 16 random bytes, so that who asks again after an answer was lost gets the same claim.
package struct ClaimID: Sendable, Hashable {
    /// The 16 bytes.
    package let bytes: [UInt8]

    /// Creates a name, or nil when there are not exactly 16 bytes.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    /// Creates a name from random bytes, 16 or more.
    package init(random bytes: [UInt8]) {
        self.bytes = Array(bytes.prefix(16)) + Array(repeating: 0, count: max(0, 16 - bytes.count))
    }
}
