import Broker
import BrokerStore
import BrokerTestSupport
import Testing

@Suite("Store contract: refreshes", .timeLimit(.minutes(2)))
struct RefreshContract {
    @Test(
        "A hundred refresh claims at the same time → one is granted, and the others wait (SEC-54)",
        arguments: StoreEngine.allCases)
    func oneClaim(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let results = try await withThrowingTaskGroup(of: RefreshClaimResult.self) { group in
                for _ in 0..<100 {
                    group.addTask { try await store.claimRefresh(session.tokenDigest) }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results.count(where: { $0 == .claimed(RefreshGrant(fence: 1)) }) == 1)
            #expect(results.count(where: { $0 == .busy(for: .seconds(25)) }) == 99)
        }
    }

    @Test(
        "A refresh claim for an ended, lapsed or unknown session, or for another version → not granted",
        arguments: StoreEngine.allCases)
    func notGranted(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let ended = Rows.session()
            let lapsed = Rows.session(at: Rows.seconds(-3600))
            let live = Rows.session()
            for session in [ended, lapsed, live] { try await store.signIn(session) }
            _ = try await store.endSessions(.token(ended.tokenDigest), reason: .loggedOut, now: Rows.now)
            func claim(_ tokenDigest: Digest, _ version: Int64) async throws -> RefreshClaimResult {
                try await store.claimRefresh(tokenDigest, version: version)
            }
            #expect(try await claim(ended.tokenDigest, 1) == .gone)
            #expect(try await claim(lapsed.tokenDigest, 1) == .gone)
            #expect(try await claim(Rows.digest(), 1) == .gone)
            #expect(try await claim(live.tokenDigest, 2) == .moved)
            #expect(try await store.session(tokenDigest: live.tokenDigest) == live)
        }
    }

    @Test(
        "A lapsed refresh claim is taken over, then its first owner commits → its pair is stored despite its old fence (SEC-125)",
        arguments: StoreEngine.allCases)
    func lateWinner(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let session = Rows.session()
            try await store.signIn(session)
            let first = try await store.mustClaimRefresh(session.tokenDigest)
            #expect(first == RefreshGrant(fence: 1))
            clock.advance(.seconds(24))
            #expect(try await store.claimRefresh(session.tokenDigest) == .busy(for: .seconds(1)))
            // The owner of the lapsed claim may hold a new token pair and have no connection to store it. So the claim stays
            // with its owner for a minute after its end.
            for pause in [1, 30, 29] as [Int64] {
                clock.advance(.seconds(pause))
                #expect(try await store.claimRefresh(session.tokenDigest) == .busy(for: .seconds(1)))
            }
            clock.advance(.seconds(1))
            // A caller passes `takesOver: false` if its own store calls failed recently. Such a caller may not take over a
            // claim.
            #expect(try await store.claimRefresh(session.tokenDigest, takesOver: false) == .busy(for: .seconds(1)))
            let second = try await store.mustClaimRefresh(session.tokenDigest)
            #expect(second == RefreshGrant(fence: 2, takenOverFor: .zero))
            #expect(try await store.commit(session.tokenDigest, version: 1, "late pair") == .committed)
            #expect(try await store.commit(session.tokenDigest, version: 1, "second pair") == .superseded)
            let row = try #require(try await store.session(tokenDigest: session.tokenDigest))
            #expect(row.tokens == Rows.sealed("late pair"))
            #expect(row.tokenVersion == 2)
            #expect(try await store.refreshState(session.tokenDigest)?.claimFor == nil)
            // The provider refused the second owner's refresh token of version 1. The row now has version 2, so the session
            // does not end.
            let condemned = try await store.condemnRefresh(
                tokenDigest: session.tokenDigest, tokenVersion: 1, fence: second.fence, reason: .grantRevoked,
                now: Rows.now)
            #expect(!condemned)
            try await store.release(session.tokenDigest, fence: second.fence)
            #expect(try await store.session(tokenDigest: session.tokenDigest)?.endedAt == nil)
            // During version 2, the row still records that the token of version 1 may have been sent twice.
            let next = try await store.mustClaimRefresh(session.tokenDigest, version: 2)
            #expect(next == RefreshGrant(fence: 3, takenOverBefore: true))
            #expect(try await store.commit(session.tokenDigest, version: 2, "third pair") == .committed)
            #expect(try await store.mustClaimRefresh(session.tokenDigest, version: 3) == RefreshGrant(fence: 4))
        }
    }

    @Test(
        "A hundred refreshes commit for one token version at the same time → one pair is stored",
        arguments: StoreEngine.allCases)
    func oneCommit(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let results = try await withThrowingTaskGroup(of: RefreshCommitResult.self) { group in
                for index in 0..<100 {
                    group.addTask { try await store.commit(session.tokenDigest, version: 1, "pair \(index)") }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results.count(where: { $0 == .committed }) == 1)
            #expect(results.count(where: { $0 == .superseded }) == 99)
            #expect(try await store.session(tokenDigest: session.tokenDigest)?.tokenVersion == 2)
        }
    }

    @Test(
        "A user logs out during a refresh, and then the refresh commits or condemns → the session stays ended (SEC-64)",
        arguments: StoreEngine.allCases)
    func afterLogout(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let claim = try await store.mustClaimRefresh(session.tokenDigest)
            _ = try await store.endSessions(.token(session.tokenDigest), reason: .loggedOut, now: Rows.seconds(1))
            #expect(try await store.commit(session.tokenDigest, version: 1, "new pair") == .ended)
            #expect(try await store.commit(Rows.digest(), version: 1, "new pair") == .ended)
            let condemned = try await store.condemnRefresh(
                tokenDigest: session.tokenDigest, tokenVersion: 1, fence: claim.fence, reason: .grantRevoked,
                now: Rows.seconds(2))
            #expect(!condemned)
            let row = try #require(try await store.session(tokenDigest: session.tokenDigest))
            #expect(row.endReason == .loggedOut)
            #expect(row.tokens == nil)
        }
    }

    @Test(
        "A log-out and a refresh's commit at the same time → the session ends, and the outbox has the last stored token pair",
        arguments: StoreEngine.allCases)
    func race(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            for round in 0..<50 {
                let session = Rows.session(tokens: "old")
                try await store.signIn(session)
                async let committed = store.commit(session.tokenDigest, version: 1, "new")
                async let ended = store.endSessions(
                    .token(session.tokenDigest), reason: .loggedOut, now: Rows.seconds(1))
                let (commit, digests) = try await (committed, ended)
                #expect(digests == [session.tokenDigest])
                #expect(try await store.session(tokenDigest: session.tokenDigest)?.tokens == nil)
                let work = try await store.takeOutbox(
                    now: Rows.seconds(1), until: Rows.seconds(Int64(9000 + round)), limit: 5)
                #expect(work.map(\.tokens) == [Rows.sealed(commit == .committed ? "new" : "old")])
                for row in work { try await store.removeOutbox(row.id) }
            }
        }
    }

    @Test(
        "An exported session ends in any way, with its children → its tokens are only deleted (decision 100)",
        arguments: StoreEngine.allCases)
    func exported(_ engine: StoreEngine) async throws {
        var rows: [StoredRow] = []
        try await engine.withStore { store in
            let (condemned, ended, revoked) = (Rows.session(), Rows.session(), Rows.session())
            for session in [condemned, ended, revoked] { try await store.signIn(session) }
            let child = Rows.child(of: condemned, at: Rows.seconds(1))
            #expect(try await store.insertChild(child, places: 16) == .made(replaced: []))
            let claim = try await store.mustClaimRefresh(condemned.tokenDigest)
            #expect(
                try await store.condemnRefresh(
                    tokenDigest: condemned.tokenDigest, tokenVersion: 1, fence: claim.fence, reason: .exported,
                    now: Rows.seconds(5)))
            let batch = try await store.endSessions(
                .token(ended.tokenDigest), reason: .exported, now: Rows.seconds(5), limit: 1)
            #expect(batch.ended == [ended.tokenDigest])
            #expect(try await store.outboxCount() == 0)
            for session in [condemned, ended] {
                let row = try #require(try await store.session(tokenDigest: session.tokenDigest))
                #expect(row.endReason == .exported && row.tokens == nil && row.endedAt == Rows.seconds(5))
            }
            #expect(try await store.session(tokenDigest: child.tokenDigest)?.endReason == .parentEnded)
            _ = try await store.endSessions(.token(revoked.tokenDigest), reason: .admin, now: Rows.seconds(6), limit: 1)
            #expect(try await store.outboxCount() == 1)
            #expect(try await store.session(tokenDigest: revoked.tokenDigest)?.endReason == .admin)
            let administered = try #require(store as? any StoreAdministration)
            rows = try await administered.rows(of: .sessions, after: nil, limit: 9).rows
        }
        // A copy in another store has the same reasons.
        try await engine.withStore { store in
            let administered = try #require(store as? any StoreAdministration)
            try await administered.insert(rows)
            let reasons = try await store.sessions(.all, .ended, after: nil, limit: 9, now: Rows.now).map(\.endReason)
            #expect(reasons.count { $0 == .exported } == 2 && reasons.count { $0 == .admin } == 1)
        }
    }

    @Test(
        "A condemnation → ends the session only with the claim's own fence and version (guarantee 2)",
        arguments: StoreEngine.allCases)
    func condemn(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let session = Rows.session()
            try await store.signIn(session)
            let first = try await store.mustClaimRefresh(session.tokenDigest)
            clock.advance(.seconds(90))
            let second = try await store.mustClaimRefresh(session.tokenDigest)
            func condemn(_ version: Int64, _ fence: Int64) async throws -> Bool {
                try await store.condemnRefresh(
                    tokenDigest: session.tokenDigest, tokenVersion: version, fence: fence, reason: .refreshLost,
                    now: Rows.seconds(90))
            }
            #expect(try await !condemn(1, first.fence))
            #expect(try await !condemn(2, second.fence))
            #expect(try await condemn(1, second.fence))
            #expect(try await !condemn(1, second.fence))
            let row = try #require(try await store.session(tokenDigest: session.tokenDigest))
            #expect(row.endReason == .refreshLost)
            #expect(row.endedAt == Rows.seconds(90))
            #expect(try await store.outboxCount() == 1)
        }
    }

    @Test(
        "A refresh claim is released with its own fence and version → free; with another fence or version → the claim stays",
        arguments: StoreEngine.allCases)
    func release(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let claim = try await store.mustClaimRefresh(session.tokenDigest)
            try await store.release(session.tokenDigest, fence: claim.fence + 1)
            try await store.release(session.tokenDigest, version: 2, fence: claim.fence)
            #expect(try await store.refreshState(session.tokenDigest)?.claimFor == .seconds(25))
            try await store.release(session.tokenDigest, fence: claim.fence)
            #expect(try await store.refreshState(session.tokenDigest)?.claimFor == nil)
            #expect(try await store.mustClaimRefresh(session.tokenDigest) == RefreshGrant(fence: 2))
        }
    }

    @Test(
        "A refresh's commit → stores tokens, facts and lifetimes; if one of these is nil, the stored value stays",
        arguments: StoreEngine.allCases)
    func commitDetails(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let commit = RefreshCommit(
                tokenDigest: session.tokenDigest, tokenVersion: 1, tokens: Rows.sealed("t2", key: "k2"),
                facts: Rows.sealed("f2", key: "k2"), tokenExpiresAt: nil, refreshable: false,
                expiresAt: Rows.seconds(1234))
            #expect(try await store.commitRefresh(commit) == .committed)
            let row = try #require(try await store.session(tokenDigest: session.tokenDigest))
            #expect(row.tokens == Rows.sealed("t2", key: "k2"))
            #expect(row.facts == Rows.sealed("f2", key: "k2"))
            #expect(row.tokenExpiresAt == nil)
            #expect(!row.refreshable)
            #expect(row.expiresAt == Rows.seconds(1234))
            #expect(try await store.commit(session.tokenDigest, version: 2, "t3") == .committed)
            let last = try #require(try await store.session(tokenDigest: session.tokenDigest))
            #expect(last.facts == Rows.sealed("f2", key: "k2"))
            #expect(last.expiresAt == Rows.seconds(1234))
            #expect(last.tokenVersion == 3)
        }
    }

    @Test(
        "A process repeats a refresh claim under the same name → granted again; under another name → refused as busy",
        arguments: StoreEngine.allCases)
    func named(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let session = Rows.session()
            try await store.signIn(session)
            let name = Rows.claim()
            #expect(try await store.claimRefresh(session.tokenDigest, name: name) == .claimed(RefreshGrant(fence: 1)))
            clock.advance(.seconds(10))
            #expect(try await store.claimRefresh(session.tokenDigest, name: name) == .claimed(RefreshGrant(fence: 1)))
            #expect(try await store.claimRefresh(session.tokenDigest) == .busy(for: .seconds(25)))
        }
    }

    @Test(
        "A refresh claim → lasts as long as its owner renews it with the claim's own fence",
        arguments: StoreEngine.allCases)
    func renewal(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let session = Rows.session()
            try await store.signIn(session)
            let claim = try await store.mustClaimRefresh(session.tokenDigest)
            for _ in 0..<4 {
                clock.advance(.seconds(20))
                #expect(
                    try await store.renewRefresh(
                        tokenDigest: session.tokenDigest, fence: claim.fence, for: .seconds(25)))
            }
            #expect(try await !store.renewRefresh(tokenDigest: session.tokenDigest, fence: 9, for: .seconds(25)))
            #expect(try await store.claimRefresh(session.tokenDigest) == .busy(for: .seconds(25)))
            #expect(try await store.refreshState(session.tokenDigest)?.claimFor == .seconds(25))
            clock.advance(.seconds(25))
            #expect(try await store.refreshState(session.tokenDigest)?.claimFor == nil)
            #expect(try await store.refreshState(session.tokenDigest)?.claimRest == .zero)
            // An owner that returns within a minute after the end of its claim gets the claim again.
            clock.advance(.seconds(59))
            #expect(try await store.refreshState(session.tokenDigest)?.claimRest == .seconds(-59))
            #expect(
                try await store.renewRefresh(tokenDigest: session.tokenDigest, fence: claim.fence, for: .seconds(25)))
            clock.advance(.seconds(85))
            _ = try await store.mustClaimRefresh(session.tokenDigest)
            #expect(
                try await !store.renewRefresh(tokenDigest: session.tokenDigest, fence: claim.fence, for: .seconds(25)))
            try await store.release(session.tokenDigest, fence: 2)
            #expect(try await store.refreshState(session.tokenDigest)?.claimRest == nil)
            #expect(try await !store.renewRefresh(tokenDigest: session.tokenDigest, fence: 2, for: .seconds(25)))
        }
    }

    @Test(
        "The marks of a refresh's take-over, lost answer, refusals and pause → stay in the row until a commit clears them",
        arguments: StoreEngine.allCases)
    func memory(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let session = Rows.session()
            try await store.signIn(session)
            let first = try await store.mustClaimRefresh(session.tokenDigest)
            try await store.release(
                session.tokenDigest, fence: first.fence, holdBack: .seconds(30), answerLost: true, emptyRefusal: true)
            // The store's answer was lost, so the release is repeated, and counts only one time.
            try await store.release(
                session.tokenDigest, fence: first.fence, holdBack: .seconds(30), answerLost: true, emptyRefusal: true)
            clock.advance(.seconds(20))
            #expect(try await store.claimRefresh(session.tokenDigest) == .heldBack(for: .seconds(10)))
            clock.advance(.seconds(10))
            let second = try await store.mustClaimRefresh(session.tokenDigest)
            #expect(
                second == RefreshGrant(fence: 2, answerLost: true, emptyRefusals: 1, emptyFor: .seconds(30)))
            clock.advance(.seconds(85))
            let third = try await store.mustClaimRefresh(session.tokenDigest)
            #expect(third.takenOverFor == .zero && third.answerLost)
            // The release of the third claim keeps the mark that this claim took over the second one.
            try await store.release(session.tokenDigest, fence: third.fence, emptyRefusal: true)
            clock.advance(.seconds(61))
            let fourth = try await store.mustClaimRefresh(session.tokenDigest)
            #expect(
                fourth
                    == RefreshGrant(
                        fence: 4, takenOverFor: .seconds(61), answerLost: true, emptyRefusals: 2,
                        emptyFor: .seconds(176)))
            #expect(try await store.commit(session.tokenDigest, version: 1, "new") == .committed)
            #expect(
                try await store.mustClaimRefresh(session.tokenDigest, version: 2)
                    == RefreshGrant(fence: 5, takenOverBefore: true))
        }
    }

    @Test("Tokens with an unchecked subject → marked until their subject is checked", arguments: StoreEngine.allCases)
    func unchecked(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let commit = RefreshCommit(
                tokenDigest: session.tokenDigest, tokenVersion: 1, tokens: Rows.sealed("t2"), facts: nil,
                tokenExpiresAt: nil,
                refreshable: true, expiresAt: nil, subjectUnchecked: true)
            #expect(try await store.commitRefresh(commit) == .committed)
            #expect(try await store.session(tokenDigest: session.tokenDigest)?.subjectUnchecked == true)
            try await store.markSubjectChecked(tokenDigest: session.tokenDigest, tokenVersion: 1)
            #expect(try await store.session(tokenDigest: session.tokenDigest)?.subjectUnchecked == true)
            try await store.markSubjectChecked(tokenDigest: session.tokenDigest, tokenVersion: 2)
            #expect(try await store.session(tokenDigest: session.tokenDigest)?.subjectUnchecked == false)
        }
    }

    @Test(
        "PostgreSQL's clock is set back by an hour after a claim → the claim counts as lapsed; by five minutes → the claim stays",
        arguments: [StoreEngine.postgresql])
    func clockSetBack(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let session = Rows.session()
            try await store.signIn(session)
            _ = try await store.mustClaimRefresh(session.tokenDigest)
            // The end of a stored claim may be at most the longest possible lifetime of a claim in the future. A claim with a
            // later end counts as lapsed.
            clock.advance(.seconds(-300))
            guard case .busy = try await store.claimRefresh(session.tokenDigest) else {
                Issue.record("a claim that may still be valid was taken over")
                return
            }
            clock.advance(.seconds(-3300))
            let grant = try await store.mustClaimRefresh(session.tokenDigest)
            #expect(grant.takenOverFor == .zero)
        }
    }

    @Test("The provider asked for a pause, and the process restarts → the next process waits for the whole pause again")
    func heldBackOverRestart() async throws {
        try await TemporaryStore.withDirectory { directory in
            let path = directory + "/coatcheck.db"
            let (held, claimed, committed) = (Rows.session(), Rows.session(), Rows.session())
            func open(_ clock: TestClock) async throws -> SQLiteStore {
                try await SQLiteStore.open(path: path, reserve: 0, monotonic: { clock.monotonic })
            }
            let clock = TestClock()
            var store = try await open(clock)
            for session in [held, claimed, committed] {
                try await store.signIn(session)
                let claim = try await store.mustClaimRefresh(session.tokenDigest)
                try await store.release(session.tokenDigest, fence: claim.fence, holdBack: .seconds(90))
            }
            clock.advance(.seconds(80))
            for session in [held, claimed, committed] {
                #expect(try await store.claimRefresh(session.tokenDigest) == .heldBack(for: .seconds(10)))
            }
            clock.advance(.seconds(10))
            _ = try await store.mustClaimRefresh(claimed.tokenDigest)
            #expect(try await store.commit(committed.tokenDigest, version: 1, "new") == .committed)
            await store.close()
            // Each process that opens the database has its own monotonic clock, which starts at another value.
            for moment in [50_000, -900] as [Int64] {
                let next = TestClock()
                next.advance(.seconds(moment))
                store = try await open(next)
                #expect(try await store.claimRefresh(held.tokenDigest) == .heldBack(for: .seconds(90)))
                next.advance(.seconds(60))
                #expect(try await store.claimRefresh(held.tokenDigest) == .heldBack(for: .seconds(30)))
                if moment > 0 { await store.close() } else { next.advance(.seconds(30)) }
            }
            _ = try await store.mustClaimRefresh(held.tokenDigest)
            // A claim or a commit had ended the pauses of these two sessions before the restart, so they can be claimed at
            // once.
            _ = try await store.mustClaimRefresh(claimed.tokenDigest)
            _ = try await store.mustClaimRefresh(committed.tokenDigest, version: 2)
            await store.close()
        }
    }
}
