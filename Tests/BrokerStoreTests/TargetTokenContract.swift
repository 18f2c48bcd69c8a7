import Broker
import BrokerStore
import BrokerTestSupport
import Testing

@testable import BrokerStore

@Suite("Store contract: tokens for other APIs", .timeLimit(.minutes(2)))
struct TargetTokenContract {
    private func commit(
        _ store: any BrokerStore, _ session: Digest, version: Int64, _ row: TargetTokenRow, unchecked: Bool = false
    ) async throws -> RefreshCommitResult {
        var commit = RefreshCommit(
            tokenDigest: session, tokenVersion: version, tokens: Rows.sealed("tokens \(version)"), facts: nil,
            tokenExpiresAt: Rows.seconds(600), refreshable: true, expiresAt: nil, subjectUnchecked: unchecked)
        commit.targetToken = row
        return try await store.commitRefresh(commit)
    }

    @Test(
        "A refresh's commit is refused → its target token is not stored either; another session looks up the token → not found",
        arguments: StoreEngine.allCases)
    func refused(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let (session, other, ended) = (Rows.session(), Rows.session(), Rows.session())
            for row in [session, other, ended] { try await store.signIn(row) }
            _ = try await store.endSessions(.token(ended.tokenDigest), reason: .loggedOut, now: Rows.now)
            let late = Rows.targetToken(of: session.tokenDigest)
            #expect(try await commit(store, session.tokenDigest, version: 2, late) == .superseded)
            #expect(try await store.targetToken(late.key, of: session.tokenDigest) == nil)
            let dead = Rows.targetToken(of: ended.tokenDigest)
            #expect(try await commit(store, ended.tokenDigest, version: 1, dead) == .ended)
            #expect(try await store.targetToken(dead.key, of: ended.tokenDigest) == nil)
            let row = Rows.targetToken(of: session.tokenDigest)
            #expect(try await commit(store, session.tokenDigest, version: 1, row) == .committed)
            #expect(try await store.targetToken(row.key, of: other.tokenDigest) == nil)
            #expect(try await store.targetToken(row.key, of: session.tokenDigest) == row)
            let found = try #require(try await store.session(tokenDigest: session.tokenDigest))
            #expect(found.tokenVersion == 2 && found.tokens == Rows.sealed("tokens 1"))
            // The caller did not get the answer to its commit, but the row is stored.
            #expect(try await commit(store, session.tokenDigest, version: 1, row) == .superseded)
            #expect(try await store.targetToken(row.key, of: session.tokenDigest) == row)
        }
    }

    @Test(
        "A step-up changed the tokens during a refresh → the refresh's commit is refused, and its target token is not stored",
        arguments: StoreEngine.allCases)
    func lent(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let before = try #require(session.tokens)
            let claim = try await store.mustClaimRefresh(session.tokenDigest)
            let exchange = try await store.mustClaim(Rows.exchange())
            #expect(
                try await store.stepUp(session.tokenDigest, exchange, isNewGrant: false) == .committed)
            let row = Rows.targetToken(of: session.tokenDigest, version: claim.fence)
            func commit(over former: Sealed, _ token: TargetTokenRow?) async throws -> RefreshCommitResult {
                var commit = RefreshCommit(
                    tokenDigest: session.tokenDigest, tokenVersion: 1, tokens: Rows.sealed("rotated"), facts: nil,
                    tokenExpiresAt: Rows.seconds(600), refreshable: true, expiresAt: nil)
                commit.targetToken = token
                commit.formerTokens = former
                return try await store.commitRefresh(commit)
            }
            #expect(try await commit(over: before, row) == .changed)
            #expect(try await commit(over: before, nil) == .changed)
            #expect(try await !store.keepTargetToken(row, tokenVersion: 1, of: before))
            #expect(try await store.targetToken(row.key, of: session.tokenDigest) == nil)
            let found = try #require(try await store.session(tokenDigest: session.tokenDigest))
            #expect(found.tokens == Rows.sealed("stepped up") && found.tokenVersion == 1)
            #expect(try await store.claimRefresh(session.tokenDigest) == .busy(for: .seconds(25)))
            let standing = try #require(found.tokens)
            #expect(try await commit(over: standing, nil) == .committed)
            #expect(try await store.session(tokenDigest: session.tokenDigest)?.tokens == Rows.sealed("rotated"))
            // Another pair has been stored since, so the result is `superseded`. After the session's end, the result is
            // `ended`.
            #expect(try await commit(over: standing, row) == .superseded)
            _ = try await store.endSessions(.token(session.tokenDigest), reason: .loggedOut, now: Rows.now)
            #expect(try await commit(over: standing, row) == .ended)
            // If a commit and a step-up run at the same time, the second one sees the writes of the first one.
            for _ in 0..<20 {
                let other = Rows.session()
                try await store.signIn(other)
                let settling = try await store.mustClaim(Rows.exchange())
                _ = try await store.mustClaimRefresh(other.tokenDigest)
                var pair = RefreshCommit(
                    tokenDigest: other.tokenDigest, tokenVersion: 1, tokens: Rows.sealed("rotated"), facts: nil,
                    tokenExpiresAt: nil, refreshable: true, expiresAt: nil)
                pair.formerTokens = other.tokens
                pair.targetToken = Rows.targetToken(of: other.tokenDigest)
                let late = pair
                async let stepped = store.stepUp(other.tokenDigest, settling, isNewGrant: false)
                async let committed = store.commitRefresh(late)
                switch try await (stepped, committed) {
                case (.committed, .changed), (.moved, .committed): break
                case let both: Issue.record("\(both)")
                }
            }
        }
    }

    @Test(
        "The subject of the session's tokens is unchecked → no target token is handed out until the check",
        arguments: StoreEngine.allCases
    )
    func unchecked(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let row = Rows.targetToken(of: session.tokenDigest)
            #expect(try await commit(store, session.tokenDigest, version: 1, row, unchecked: true) == .committed)
            #expect(try await store.targetToken(row.key, of: session.tokenDigest) == nil)
            try await store.markSubjectChecked(tokenDigest: session.tokenDigest, tokenVersion: 2)
            #expect(try await store.targetToken(row.key, of: session.tokenDigest) == row)
        }
    }

    @Test(
        "A token exchange brings a target token → stored only with the claim's own fence and version, which releases the claim",
        arguments: StoreEngine.allCases)
    func exchanged(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let session = Rows.session()
            try await store.signIn(session)
            let unclaimed = Rows.targetToken(of: session.tokenDigest, version: 0)
            #expect(try await !store.keepTargetToken(unclaimed, tokenVersion: 1, of: nil))
            let claim = try await store.mustClaimRefresh(session.tokenDigest)
            for (fence, version) in [(claim.fence + 1, 1), (claim.fence, 2)] as [(Int64, Int64)] {
                let row = Rows.targetToken(of: session.tokenDigest, version: fence)
                #expect(try await !store.keepTargetToken(row, tokenVersion: version, of: nil))
                #expect(try await store.targetToken(row.key, of: session.tokenDigest) == nil)
            }
            #expect(try await store.claimRefresh(session.tokenDigest) == .busy(for: .seconds(25)))
            let row = Rows.targetToken(of: session.tokenDigest, version: claim.fence)
            #expect(try await store.keepTargetToken(row, tokenVersion: 1, of: nil))
            #expect(try await store.targetToken(row.key, of: session.tokenDigest) == row)
            // Storing the row has released the claim, so the store refuses a second row with the same fence.
            #expect(
                try await !store.keepTargetToken(
                    Rows.targetToken(of: session.tokenDigest, key: row.key, version: claim.fence, "later"),
                    tokenVersion: 1,
                    of: nil
                ))
            clock.advance(.seconds(1))
            let next = try await store.mustClaimRefresh(session.tokenDigest)
            #expect(next.fence == claim.fence + 1)
            // A row with a newer token for the same API replaces the first row.
            let newer = Rows.targetToken(of: session.tokenDigest, key: row.key, version: next.fence, "newer")
            #expect(try await store.keepTargetToken(newer, tokenVersion: 1, of: nil))
            #expect(try await store.targetToken(row.key, of: session.tokenDigest) == newer)
        }
    }

    @Test(
        "A session ends, is replaced or steps up → its target tokens are deleted; the session lapses → deleted at its burial",
        arguments: StoreEngine.allCases)
    func ends(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            func session() async throws -> (SessionRow, TargetTokenRow) {
                let session = Rows.session()
                try await store.signIn(session)
                let row = Rows.targetToken(of: session.tokenDigest)
                #expect(try await commit(store, session.tokenDigest, version: 1, row) == .committed)
                return (session, row)
            }
            func isLeft(_ one: (SessionRow, TargetTokenRow)) async throws -> Bool {
                try await store.targetToken(one.1.key, of: one.0.tokenDigest) != nil
            }
            let (ended, condemned, replaced, lapsed) = try await (session(), session(), session(), session())
            let (stepped, kept, bystander) = try await (session(), session(), session())
            _ = try await store.endSessions(.token(ended.0.tokenDigest), reason: .loggedOut, now: Rows.now)
            let claim = try await store.mustClaimRefresh(condemned.0.tokenDigest, version: 2)
            #expect(
                try await store.condemnRefresh(
                    tokenDigest: condemned.0.tokenDigest, tokenVersion: 2, fence: claim.fence, reason: .grantRevoked,
                    now: Rows.now))
            try await store.signIn(Rows.session(), replacing: replaced.0.tokenDigest)
            let exchange = try await store.mustClaim(Rows.exchange())
            #expect(try await store.stepUp(stepped.0.tokenDigest, exchange, version: 2) == .committed)
            let other = try await store.mustClaim(Rows.exchange())
            #expect(
                try await store.stepUp(kept.0.tokenDigest, other, version: 2, isNewGrant: false) == .committed)
            for one in [ended, condemned, replaced, stepped, kept] { #expect(try await !isLeft(one)) }
            for one in [bystander, lapsed] { #expect(try await isLeft(one)) }
            // A token pair of the earlier grant arrives late. Its commit does not restore the deleted target tokens.
            #expect(
                try await commit(store, stepped.0.tokenDigest, version: 2, Rows.targetToken(of: stepped.0.tokenDigest))
                    == .outgrown)
            let administered = try #require(store as? any StoreAdministration)
            #expect(try await administered.rowCounts()[.targetTokens] == 2)
            // The target tokens of a lapsed session are deleted when the sweep buries the session.
            _ = try await store.sweep(
                now: Rows.seconds(7200 + 90_000), limit: 100, lapsedSince: Rows.seconds(7200 + 89_000))
            #expect(try await administered.rowCounts()[.targetTokens] == 0)
        }
    }

    @Test(
        "A session gets a ninth target token → the token that was unused longest is deleted, and never the new one",
        arguments: StoreEngine.allCases)
    func eight(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let (session, other) = (Rows.session(), Rows.session())
            for row in [session, other] { try await store.signIn(row) }
            let neighbour = Rows.targetToken(of: other.tokenDigest, at: Rows.seconds(-1000))
            #expect(try await commit(store, other.tokenDigest, version: 1, neighbour) == .committed)
            var rows: [TargetTokenRow] = []
            for number in 1...8 as ClosedRange<Int64> {
                let row = Rows.targetToken(of: session.tokenDigest, version: number, at: Rows.seconds(number))
                rows.append(row)
                #expect(try await commit(store, session.tokenDigest, version: number, row) == .committed)
            }
            // The oldest row is used again. A later call with an earlier time does not set its use time back.
            try await store.useTargetToken(rows[0].key, at: Rows.seconds(60))
            try await store.useTargetToken(rows[0].key, at: Rows.seconds(30))
            rows[0].usedAt = Rows.seconds(60)
            #expect(try await store.targetToken(rows[0].key, of: session.tokenDigest) == rows[0])
            // The process that stores the ninth row has a clock that is behind.
            let ninth = Rows.targetToken(of: session.tokenDigest, version: 9, at: Rows.seconds(-50))
            #expect(try await commit(store, session.tokenDigest, version: 9, ninth) == .committed)
            var left: [Bool] = []
            for row in rows + [ninth, neighbour] {
                left.append(try await store.targetToken(row.key, of: row.session) != nil)
            }
            #expect(left == [true, false, true, true, true, true, true, true, true, true])
        }
    }
}
