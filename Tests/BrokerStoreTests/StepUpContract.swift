import Broker
import BrokerStore
import BrokerTestSupport
import Testing

@Suite("Store contract: step-ups", .timeLimit(.minutes(2)))
struct StepUpContract {
    @Test(
        "A step-up's commit → succeeds only with its own exchange, a session that has not ended, and an unchanged version",
        arguments: StoreEngine.allCases)
    func refused(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            let ended = Rows.session()
            let lapsed = Rows.session(at: Rows.seconds(-3600))
            for row in [session, ended, lapsed] { try await store.signIn(row) }
            _ = try await store.endSessions(.token(ended.tokenDigest), reason: .loggedOut, now: Rows.now)
            let before = try await store.session(tokenDigest: ended.tokenDigest)
            let exchange = try await store.mustClaim(Rows.exchange())
            #expect(
                try await store.stepUp(session.tokenDigest, exchange, fence: exchange.fence + 1) == .takenAway)
            #expect(try await store.stepUp(session.tokenDigest, Rows.exchange()) == .takenAway)
            #expect(try await store.stepUp(ended.tokenDigest, exchange) == .ended)
            #expect(try await store.stepUp(Rows.digest(), exchange) == .ended)
            #expect(try await store.stepUp(session.tokenDigest, exchange, version: 2) == .moved)
            #expect(try await store.stepUp(session.tokenDigest, exchange, state: 2) == .moved)
            #expect(try await store.session(tokenDigest: session.tokenDigest) == session)
            #expect(try await store.session(tokenDigest: ended.tokenDigest) == before)
            #expect(try await store.exchange(exchange.key)?.outcome == .calling)
            #expect(try await store.outboxCount() == 1)
            // The step-up commits. If the store's answer is lost, the owner of the exchange finds the session through the
            // exchange.
            #expect(try await store.stepUp(session.tokenDigest, exchange) == .committed)
            #expect(try await store.stepUp(session.tokenDigest, exchange, version: 2) == .takenAway)
            #expect(try await store.exchange(exchange.key)?.outcome == .session(session.tokenDigest))
            // The store accepts the step-up of a lapsed session. It does not judge lapses, because a wall clock may be wrong
            // (guarantee 3).
            let other = try await store.mustClaim(Rows.exchange())
            #expect(try await store.stepUp(lapsed.tokenDigest, other) == .committed)
        }
    }

    @Test(
        "A step-up with a new grant → new version and fence, no marks of earlier refreshes, and the former grant in the outbox",
        arguments: StoreEngine.allCases)
    func newGrant(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let session = Rows.session()
            try await store.signIn(session)
            let first = try await store.mustClaimRefresh(session.tokenDigest)
            try await store.release(session.tokenDigest, fence: first.fence, answerLost: true, emptyRefusal: true)
            let claim = try await store.mustClaimRefresh(session.tokenDigest)
            #expect(claim.answerLost)
            let sid = Rows.digest()
            let old = OutboxRow(
                id: Rows.digest(), boundTo: session.tokenDigest, tokens: Rows.sealed("old"), createdAt: Rows.now,
                nextAttemptAt: Rows.now)
            let exchange = try await store.mustClaim(Rows.exchange())
            #expect(
                try await store.stepUp(
                    session.tokenDigest, exchange, sid: sid, idleEnd: Rows.seconds(5000), at: Rows.seconds(60),
                    outbox: [old]) == .committed)
            var expected = session
            expected.tokenVersion = 2
            expected.version = 2
            expected.fence = claim.fence + 1
            expected.sid = sid
            expected.tokens = Rows.sealed("stepped up")
            expected.facts = Rows.sealed("new facts")
            expected.tokenExpiresAt = Rows.seconds(900)
            expected.lastUsedAt = Rows.seconds(60)
            expected.idleExpiresAt = Rows.seconds(5000)
            #expect(try await store.session(tokenDigest: session.tokenDigest) == expected)
            #expect(try await store.sessions(.sid(sid), .live, after: nil, limit: 5, now: Rows.now).count == 1)
            let work = try await store.takeOutbox(now: Rows.now, until: Rows.seconds(60), limit: 5)
            #expect(work.map(\.id) == [old.id])
            // The step-up ended the refresh claim. The former owner of the claim can neither renew it nor set marks by its
            // release.
            #expect(
                try await !store.renewRefresh(
                    tokenDigest: session.tokenDigest, fence: claim.fence, for: .seconds(25)))
            try await store.release(session.tokenDigest, fence: claim.fence, holdBack: .seconds(60), answerLost: true)
            clock.advance(.seconds(1))
            #expect(
                try await store.mustClaimRefresh(session.tokenDigest, version: 2)
                    == RefreshGrant(fence: claim.fence + 2))
        }
    }

    @Test(
        "A step-up has begun a new grant → a late pair or condemnation of the former grant has no effect",
        arguments: StoreEngine.allCases)
    func olderGrant(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let claim = try await store.mustClaimRefresh(session.tokenDigest)
            let exchange = try await store.mustClaim(Rows.exchange())
            #expect(try await store.stepUp(session.tokenDigest, exchange) == .committed)
            // Here the step-up commits first, and the refresh second.
            #expect(try await store.commit(session.tokenDigest, version: 1, "late pair") == .outgrown)
            let condemned = try await store.condemnRefresh(
                tokenDigest: session.tokenDigest, tokenVersion: 1, fence: claim.fence, reason: .grantRevoked,
                now: Rows.now)
            #expect(!condemned)
            let row = try #require(try await store.session(tokenDigest: session.tokenDigest))
            #expect(row.tokens == Rows.sealed("stepped up") && row.tokenVersion == 2 && row.endedAt == nil)
            // The new grant is refreshed as usual. If two pairs of the new grant arrive, the second one is dropped. A pair of
            // the old grant is `outgrown`.
            #expect(try await store.commit(session.tokenDigest, version: 2, "next") == .committed)
            #expect(try await store.commit(session.tokenDigest, version: 2, "loser") == .superseded)
            #expect(try await store.commit(session.tokenDigest, version: 1, "late pair") == .outgrown)
            // Here a refresh has committed before the step-up, so the result is `moved`, and the step-up reads the row again.
            let second = try await store.mustClaim(Rows.exchange())
            #expect(try await store.stepUp(session.tokenDigest, second, version: 2, state: 2) == .moved)
            #expect(try await store.stepUp(session.tokenDigest, second, version: 3, state: 2) == .committed)
            #expect(try await store.commit(session.tokenDigest, version: 3, "late pair") == .outgrown)
        }
    }

    @Test(
        "A step-up keeps the refresh token → a refresh with this token commits or condemns as usual",
        arguments: StoreEngine.allCases)
    func sameGrant(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            for ends in [false, true] {
                let session = Rows.session()
                try await store.signIn(session)
                let claim = try await store.mustClaimRefresh(session.tokenDigest)
                let exchange = try await store.mustClaim(Rows.exchange())
                #expect(
                    try await store.stepUp(session.tokenDigest, exchange, isNewGrant: false) == .committed)
                let row = try #require(try await store.session(tokenDigest: session.tokenDigest))
                #expect(row.tokenVersion == 1 && row.fence == claim.fence)
                #expect(row.facts == Rows.sealed("new facts"))
                #expect(try await store.refreshState(session.tokenDigest)?.claimFor != nil)
                if ends {
                    let condemned = try await store.condemnRefresh(
                        tokenDigest: session.tokenDigest, tokenVersion: 1, fence: claim.fence, reason: .grantRevoked,
                        now: Rows.now)
                    #expect(condemned)
                    continue
                }
                // The refresh stores its token pair. It read its facts before the step-up, so they do not replace the newer
                // facts.
                func commit(_ version: Int64, of former: Sealed) async throws -> RefreshCommitResult {
                    try await store.commitRefresh(
                        RefreshCommit(
                            tokenDigest: session.tokenDigest, tokenVersion: version, tokens: Rows.sealed("pair"),
                            facts: Rows.sealed("shrunk", key: "k2"), formerFacts: former, tokenExpiresAt: nil,
                            refreshable: true, expiresAt: nil))
                }
                #expect(try await commit(1, of: session.facts) == .committed)
                let refreshed = try #require(try await store.session(tokenDigest: session.tokenDigest))
                #expect(refreshed.tokens == Rows.sealed("pair") && refreshed.tokenVersion == 2)
                #expect(refreshed.facts == Rows.sealed("new facts"))
                #expect(try await commit(2, of: refreshed.facts) == .committed)
                #expect(
                    try await store.session(tokenDigest: session.tokenDigest)?.facts
                        == Rows.sealed("shrunk", key: "k2"))
                #expect(try await store.commit(session.tokenDigest, version: 1, "loser") == .superseded)
            }
        }
    }

    @Test(
        "A session's subject is marked as unchecked: a step-up with a new grant → mark removed; with the same grant → mark kept",
        arguments: StoreEngine.allCases)
    func uncheckedSubject(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            for isNewGrant in [true, false] {
                let session = Rows.session()
                try await store.signIn(session)
                let unchecked = RefreshCommit(
                    tokenDigest: session.tokenDigest, tokenVersion: 1, tokens: Rows.sealed("pair"), facts: nil,
                    tokenExpiresAt: nil, refreshable: true, expiresAt: nil, subjectUnchecked: true)
                #expect(try await store.commitRefresh(unchecked) == .committed)
                let exchange = try await store.mustClaim(Rows.exchange())
                #expect(
                    try await store.stepUp(session.tokenDigest, exchange, version: 2, isNewGrant: isNewGrant)
                        == .committed)
                let row = try await store.session(tokenDigest: session.tokenDigest)
                #expect(row?.subjectUnchecked == !isNewGrant)
            }
        }
    }

    @Test(
        "A step-up or a presence key → raises the session's version; a refresh or a slide → does not",
        arguments: StoreEngine.allCases)
    func versions(_ engine: StoreEngine) async throws {
        let session = Rows.session()
        var rows: [StoredRow] = []
        try await engine.withStore { store in
            try await store.signIn(session)
            func version() async throws -> Int64? {
                try await store.session(tokenDigest: session.tokenDigest)?.version
            }
            #expect(try await version() == 1)
            #expect(try await store.commit(session.tokenDigest, version: 1, "pair") == .committed)
            try await store.slideSession(
                tokenDigest: session.tokenDigest, lastUsedAt: Rows.seconds(9), idleExpiresAt: Rows.seconds(3700))
            #expect(try await version() == 1)
            let presence = Rows.presence(of: session.tokenDigest)
            #expect(try await store.registerPresence(presence) == .committed)
            #expect(try await version() == 2)
            _ = try await store.registerPresence(presence)
            #expect(try await version() == 2)
            // The step-up was computed from the row as it was before the presence key was registered. Its answer would show a
            // session without this key, so the result is `moved`.
            let first = try await store.mustClaim(Rows.exchange())
            #expect(try await store.stepUp(session.tokenDigest, first, version: 2) == .moved)
            #expect(try await store.stepUp(session.tokenDigest, first, version: 2, state: 2) == .committed)
            #expect(try await version() == 3)
            let second = try await store.mustClaim(Rows.exchange())
            #expect(
                try await store.stepUp(session.tokenDigest, second, version: 3, state: 3, isNewGrant: false)
                    == .committed)
            #expect(try await version() == 4)
            let administered = try #require(store as? any StoreAdministration)
            rows = try await administered.rows(of: .sessions, after: nil, limit: 9).rows
        }
        // A session that is moved to another store keeps its version.
        try await engine.withStore { store in
            let administered = try #require(store as? any StoreAdministration)
            try await administered.insert(rows)
            #expect(try await store.session(tokenDigest: session.tokenDigest)?.version == 4)
        }
    }

    @Test(
        "Two step-ups start from the same session row → the second commit is refused, and has to read the row again",
        arguments: StoreEngine.allCases)
    func twoOfOneRow(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            for isNewGrant in [true, false] {
                let session = Rows.session()
                try await store.signIn(session)
                let (later, older) = (
                    try await store.mustClaim(Rows.exchange()), try await store.mustClaim(Rows.exchange())
                )
                #expect(
                    try await store.stepUp(session.tokenDigest, later, isNewGrant: isNewGrant, at: Rows.seconds(60))
                        == .committed)
                let row = try #require(try await store.session(tokenDigest: session.tokenDigest))
                let count = try await store.outboxCount()
                let result = try await store.stepUp(
                    session.tokenDigest, older, isNewGrant: false, at: Rows.seconds(90),
                    outbox: [Rows.outbox(at: Rows.now)])
                #expect(result == .moved)
                #expect(try await store.session(tokenDigest: session.tokenDigest) == row)
                #expect(try await store.outboxCount() == count)
                #expect(try await store.exchange(older.key)?.outcome == .calling)
                // The earlier step-up is computed again, from the row that the later step-up has stored.
                let again = try await store.stepUp(
                    session.tokenDigest, older, version: row.tokenVersion, state: row.version, isNewGrant: false,
                    outbox: [Rows.outbox(at: Rows.now)])
                #expect(again == .committed)
                #expect(try await store.outboxCount() == count + 1)
            }
        }
    }

    @Test(
        "A step-up finds that another one has changed the session → its own exchange is finished; its tokens go to the outbox",
        arguments: StoreEngine.allCases)
    func overtaken(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let exchange = try await store.mustClaim(Rows.exchange())
            let work = [Rows.outbox(at: Rows.now)]
            func settle(fence: Int64) async throws -> Bool {
                try await store.settleExchange(
                    exchange.key, fence: fence, outcome: .session(session.tokenDigest), outbox: work, registration: nil)
            }
            #expect(try await !settle(fence: exchange.fence + 1))
            #expect(try await store.exchange(exchange.key)?.outcome == .calling)
            #expect(try await settle(fence: exchange.fence))
            #expect(try await store.exchange(exchange.key)?.outcome == .session(session.tokenDigest))
            // The step-up's answer was lost, so the step-up is repeated.
            #expect(try await !settle(fence: exchange.fence))
            #expect(try await store.outboxCount() == 1)
            #expect(try await store.session(tokenDigest: session.tokenDigest) == session)
        }
    }

    @Test(
        "A step-up and a refresh at the same time → the step-up's tokens stay, and the refresh commits first or is outgrown",
        arguments: StoreEngine.allCases)
    func race(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            for _ in 0..<30 {
                let session = Rows.session()
                try await store.signIn(session)
                let exchange = try await store.mustClaim(Rows.exchange())
                async let refreshed = store.commit(session.tokenDigest, version: 1, "pair")
                async let steppedUp = store.stepUp(session.tokenDigest, exchange)
                switch try await (refreshed, steppedUp) {
                case (.committed, .moved):
                    #expect(try await store.stepUp(session.tokenDigest, exchange, version: 2) == .committed)
                case (.outgrown, .committed): break
                case let other: Issue.record("\(other)")
                }
                #expect(
                    try await store.session(tokenDigest: session.tokenDigest)?.tokens == Rows.sealed("stepped up"))
            }
        }
    }
}

extension ExchangeStore {
    /// Stores a step-up of a session through a claimed exchange.
    func stepUp(
        _ tokenDigest: Digest, _ exchange: ExchangeRow, fence: Int64? = nil, version: Int64 = 1, state: Int64 = 1,
        isNewGrant: Bool = true, sid: Digest? = nil, idleEnd: WallTime = Rows.seconds(3600),
        at now: WallTime = Rows.now, outbox: [OutboxRow] = []
    ) async throws -> StepUpCommitResult {
        try await completeStepUp(
            StepUpCommit(
                exchange: exchange.key, exchangeFence: fence ?? exchange.fence, tokenDigest: tokenDigest,
                tokenVersion: version, version: state, isNewGrant: isNewGrant, tokens: Rows.sealed("stepped up"),
                facts: Rows.sealed("new facts"), sid: sid, tokenExpiresAt: Rows.seconds(900), refreshable: true,
                idleExpiresAt: idleEnd, now: now, outbox: outbox))
    }
}
