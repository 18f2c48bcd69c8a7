/// A session as a claimed row.
///
/// A lapsed refresh claim is left to its owner for `RefreshMarks.grace`, and may then be taken over.
struct ClaimedSession: ClaimedRow {
    let store: any BrokerStore
    let tokenDigest: Digest

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
                tokenDigest: claim.tokenDigest, tokenVersion: claim.tokenVersion, fence: grant.fence, holdBack: .zero))
    }

    func renew(_ fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool {
        try await store.renewRefresh(tokenDigest: tokenDigest, fence: fence, for: lifetime)
    }
}
