import Broker
import BrokerStore
import BrokerTestSupport
import Testing

@Suite("Store contract: imports", .timeLimit(.minutes(2)))
struct ImportContract {
    private func importRow(key: Digest = Rows.digest(), proof: Digest? = Rows.digest(), at time: WallTime = Rows.now)
        -> ExchangeRow
    {
        var row = Rows.exchange(key: key, proof: proof, at: time)
        row.imported = ImportMarks(keptUntil: time.advanced(by: ImportMarks.period))
        return row
    }

    /// Returns another starter's claim of the same import.
    private func rival(of row: ExchangeRow, at time: WallTime = Rows.now) -> ExchangeRow {
        importRow(key: row.key, at: time)
    }

    private func claim(_ row: ExchangeRow, _ store: any BrokerStore) async throws -> ExchangeRow {
        let result = try await store.claimImport(row, sparing: .none)
        guard case .claimed(let claimed) = result else {
            Issue.record("\(result)")
            return row
        }
        return claimed
    }

    @Test(
        "A hundred claims of one import at the same time → exactly one is granted (SEC-124)",
        arguments: StoreEngine.allCases)
    func oneClaim(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let row = importRow()
            let results = try await withThrowingTaskGroup(of: ExchangeClaimResult.self) { group in
                for _ in 0..<100 {
                    group.addTask { try await store.claimImport(rival(of: row), sparing: .none) }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results.count(where: { if case .claimed = $0 { true } else { false } }) == 1)
            #expect(results.count(where: { if case .existing = $0 { true } else { false } }) == 99)
        }
    }

    @Test(
        "An import of a client is granted → recorded one time, and found by any process",
        arguments: StoreEngine.allCases)
    func grants(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let (key, other) = (Rows.digest(), Rows.digest())
            #expect(try await !store.hasImportGrant(key))
            try await store.noteImportGrant(key, at: Rows.now)
            try await store.noteImportGrant(key, at: Rows.seconds(60))
            #expect(try await store.hasImportGrant(key))
            #expect(try await !store.hasImportGrant(other))
            let administered = try #require(store as? any StoreAdministration)
            let rows = try await administered.rows(of: .importGrants, after: nil, limit: 9).rows
            #expect(rows == [.importGrant(key, at: Rows.now)])
        }
    }

    @Test(
        "An import is released before its call → claimed again five times, also by another starter, and then kept for a day",
        arguments: StoreEngine.allCases)
    func released(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let row = importRow()
            var expected = try await claim(row, store)
            #expect(expected == row)
            for _ in 0..<5 {
                #expect(try await store.releaseImport(row.key, fence: expected.fence, ImportRelease(calls: 0)))
                #expect(try await !store.releaseImport(row.key, fence: expected.fence, ImportRelease(calls: 0)))
                let kept = try await store.exchange(row.key)
                #expect(kept?.attempts == 0 && kept?.outcome == .released)
                #expect(kept?.imported?.keptUntil == Rows.now.advanced(by: ImportMarks.shortPeriod))
                let next = rival(of: row)
                let claimed = try await claim(next, store)
                #expect(claimed.fence == expected.fence + 1 && claimed.attempts == 1)
                #expect(claimed.proof == next.proof && claimed.salt == next.salt)
                #expect(claimed.imported == next.imported)
                #expect(try await store.exchange(row.key) == claimed)
                // The caller repeats its own claim because the response was lost.
                #expect(try await store.claimImport(next, sparing: .none) == .claimed(claimed))
                expected = claimed
            }
        }
    }

    @Test(
        "A legacy token goes on as an import → its row leads to the import's row, and further claims are refused",
        arguments: StoreEngine.allCases)
    func continued(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let (row, imported) = (importRow(), Rows.digest())
            let owner = try await claim(row, store)
            func settle() async throws -> Bool {
                try await store.settleExchange(
                    row.key, fence: owner.fence, outcome: .continued(imported), outbox: [], registration: nil)
            }
            #expect(try await settle())
            #expect(try await !settle())
            let standing = try await store.exchange(row.key)
            #expect(standing?.outcome == .continued(imported) && standing?.imported == row.imported)
            guard case .existing(let found) = try await store.claimImport(rival(of: row), sparing: .none) else {
                Issue.record("claimed again")
                return
            }
            #expect(found.outcome == .continued(imported))
        }
    }

    @Test(
        "The old system refuses a legacy token → the row is kept for ten minutes, and is then swept",
        arguments: StoreEngine.allCases)
    func refusedLegacy(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let row = importRow()
            let owner = try await claim(row, store)
            _ = try await store.settleExchange(
                row.key, fence: owner.fence, outcome: .spent(.unknownSession), outbox: [], registration: nil)
            let standing = try await store.exchange(row.key)
            #expect(standing?.outcome == .spent(.unknownSession))
            #expect(standing?.imported?.keptUntil == Rows.now.advanced(by: ImportMarks.refusedPeriod))
            _ = try await store.sweep(now: Rows.seconds(599), limit: 10, lapsedSince: Rows.now)
            #expect(try await store.exchange(row.key) != nil)
            _ = try await store.sweep(now: Rows.seconds(600), limit: 10, lapsedSince: Rows.now)
            #expect(try await store.exchange(row.key) == nil)
        }
    }

    @Test(
        "An import's call is lost → one confirming claim, and afterwards `refresh_lost`",
        arguments: StoreEngine.allCases)
    func lost(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let row = importRow()
            let first = try await claim(row, store)
            #expect(try await store.releaseImport(row.key, fence: first.fence, ImportRelease(calls: 1)))
            #expect(try await store.exchange(row.key)?.imported == row.imported)
            let second = try await claim(rival(of: row), store)
            #expect(second.attempts == 2)
            // The confirming call failed before it was sent.
            #expect(try await store.releaseImport(row.key, fence: second.fence, ImportRelease(calls: 1)))
            let third = try await claim(rival(of: row), store)
            #expect(third.attempts == 2)
            #expect(try await store.releaseImport(row.key, fence: third.fence, ImportRelease(calls: 2)))
            for _ in 0..<2 {
                guard case .existing(let spent) = try await store.claimImport(rival(of: row), sparing: .none) else {
                    Issue.record("a third call")
                    return
                }
                #expect(spent.outcome == .spent(.refreshLost))
                #expect(try await store.exchange(row.key) == spent)
            }
        }
    }

    @Test(
        "The claims of a question to the old system allow any number of calls → granted after each dead owner",
        arguments: StoreEngine.allCases)
    func question(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let row = importRow()
            for calls in 1...4 {
                var next = rival(of: row)
                next.imported?.mostCalls = ImportMarks.anyNumber
                let claimed = try await claim(next, store)
                #expect(claimed.attempts == calls)
                clock.advance(.seconds(26))
            }
        }
    }

    @Test(
        "An import's owner dies → taken over after 25 s with the calls that the row has; the owner's late results are refused",
        arguments: StoreEngine.allCases)
    func takenOver(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let row = importRow()
            let owner = try await claim(row, store)
            #expect(try await store.countImportCall(row.key, fence: owner.fence, calls: 1))
            clock.advance(.seconds(20))
            #expect(try await store.renewExchange(row.key, fence: owner.fence, for: .seconds(25)))
            clock.advance(.seconds(24))
            guard case .existing(let standing) = try await store.claimImport(rival(of: row), sparing: .none) else {
                Issue.record("claimed from a living owner")
                return
            }
            #expect(standing.outcome == .calling && standing.claimFor == .seconds(1))
            clock.advance(.seconds(2))
            guard case .existing = try await store.claimImport(rival(of: row), sparing: .all) else {
                Issue.record("claimed from an owner that is spared")
                return
            }
            let next = try await claim(rival(of: row), store)
            #expect(next.fence == 2 && next.attempts == 2)
            let session = Rows.session()
            let late = try await store.completeExchange(
                row.key, fence: owner.fence, session: session, replacing: nil, sessionLimit: 5)
            #expect(late == nil)
            let pair = ImportPair(key: row.key, tokens: Rows.sealed())
            #expect(try await !store.keepPair(pair, as: ImportMarks.attemptsWithPair, fence: owner.fence, at: Rows.now))
            #expect(try await !store.countImportCall(row.key, fence: owner.fence, calls: 2))
            #expect(try await !store.releaseImport(row.key, fence: owner.fence, ImportRelease(calls: 0)))
            #expect(try await store.keptPair(row.key) == nil)
            clock.advance(.seconds(26))
            guard case .existing(let spent) = try await store.claimImport(rival(of: row), sparing: .none) else {
                Issue.record("a third call")
                return
            }
            #expect(spent.outcome == .spent(.refreshLost))
        }
    }

    @Test(
        "An import's pair is kept → only its owner replaces it, by a newer one, and only its starter claims again; the end deletes it",
        arguments: StoreEngine.allCases)
    func kept(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            for isCompleted in [true, false] {
                let row = importRow()
                let pair = ImportPair(key: row.key, tokens: Rows.sealed("pair"))
                var owner = try await claim(row, store)
                let number = ImportMarks.attemptsWithPair
                for _ in 0..<2 {
                    #expect(try await store.keepPair(pair, as: number, fence: owner.fence, at: Rows.seconds(1)))
                }
                #expect(try await store.keptPair(row.key) == pair)
                let newer = ImportPair(key: row.key, tokens: Rows.sealed("newer pair"))
                let after = Rows.seconds(2)
                #expect(try await !store.keepPair(newer, as: number + 1, fence: owner.fence + 1, at: after))
                #expect(try await store.keptPair(row.key) == pair)
                #expect(try await store.keepPair(newer, as: number + 1, fence: owner.fence, at: after))
                // A repeat of the first write arrives late.
                #expect(try await !store.keepPair(pair, as: number, fence: owner.fence, at: after))
                #expect(try await store.keptPair(row.key) == newer)
                for release in [0, 1] {
                    #expect(
                        try await store.releaseImport(row.key, fence: owner.fence, ImportRelease(calls: release)))
                    let standing = try await store.exchange(row.key)
                    #expect(standing?.attempts == number + 1)
                    #expect(standing?.imported?.pairKeptAt == Rows.seconds(1))
                    #expect(standing?.imported?.keptUntil == row.imported?.keptUntil)
                    guard case .existing = try await store.claimImport(rival(of: row), sparing: .none) else {
                        Issue.record("another starter got the pair")
                        return
                    }
                    var again = row
                    again.claim = Rows.claim()
                    owner = try await claim(again, store)
                    #expect(owner.attempts == number + 1)
                    #expect(owner.imported?.pairKeptAt == Rows.seconds(1))
                }
                // The owner dies.
                clock.advance(.seconds(26))
                var again = row
                again.claim = Rows.claim()
                owner = try await claim(again, store)
                #expect(owner.attempts == number + 1)
                if isCompleted {
                    let session = Rows.session()
                    let ended = try await store.completeExchange(
                        row.key, fence: owner.fence, session: session, replacing: nil, sessionLimit: 5)
                    #expect(ended == EndedSessions())
                    #expect(try await store.session(tokenDigest: session.tokenDigest) == session)
                } else {
                    let isSettled = try await store.settleExchange(
                        row.key, fence: owner.fence, outcome: .spent(.identityRejected), outbox: [], registration: nil)
                    #expect(isSettled)
                }
                let standing = try await store.exchange(row.key)
                #expect(standing?.imported == row.imported)
                #expect(try await store.keptPair(row.key) == nil)
                #expect(
                    try await store.claimImport(rival(of: row), sparing: .none) == .existing(try #require(standing)))
            }
        }
    }

    @Test(
        "An import's refusals are counted → the row has their number and the time of the first; a refused one is kept for a day",
        arguments: StoreEngine.allCases)
    func refusals(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let row = importRow()
            var owner = try await claim(row, store)
            for seconds in [1, 2] {
                let release = ImportRelease(calls: 0, refusedAt: Rows.seconds(Int64(seconds)))
                #expect(try await store.releaseImport(row.key, fence: owner.fence, release))
                owner = try await claim(rival(of: row), store)
                #expect(owner.imported?.refusals == seconds && owner.imported?.firstRefusedAt == Rows.seconds(1))
            }
            let isSettled = try await store.settleExchange(
                row.key, fence: owner.fence, outcome: .spent(.grantRevoked), outbox: [], registration: nil)
            #expect(isSettled)
            let standing = try await store.exchange(row.key)
            #expect(standing?.outcome == .spent(.grantRevoked))
            #expect(standing?.imported?.keptUntil == Rows.now.advanced(by: ImportMarks.shortPeriod))
        }
    }

    @Test(
        "A pair is kept for an hour → the sweep moves it to the outbox and spends the import as `expired`, unless it is claimed",
        arguments: StoreEngine.allCases)
    func expiredPairs(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            let (waiting, claimed, dead) = (importRow(), importRow(), importRow())
            var rows: [Digest: ExchangeRow] = [:]
            for row in [waiting, claimed, dead] {
                let owner = try await claim(row, store)
                let pair = ImportPair(key: row.key, tokens: Rows.sealed("pair"))
                #expect(
                    try await store.keepPair(pair, as: ImportMarks.attemptsWithPair, fence: owner.fence, at: Rows.now))
                rows[row.key] = owner
            }
            let fence = try #require(rows[waiting.key]).fence
            #expect(try await store.releaseImport(waiting.key, fence: fence, ImportRelease(calls: 1)))
            clock.advance(.seconds(26))
            #expect(
                try await store.renewExchange(
                    claimed.key, fence: try #require(rows[claimed.key]).fence, for: .seconds(25)))
            _ = try await store.sweep(now: Rows.seconds(3599), limit: 10, lapsedSince: Rows.now)
            #expect(try await store.outboxCount() == 0)
            // A sweep that lacks the time of the announced lapses has a doubted clock.
            _ = try await store.sweep(now: Rows.seconds(3601), limit: 10, lapsedSince: nil)
            #expect(try await store.outboxCount() == 0)
            #expect(try await store.sweep(now: Rows.seconds(3601), limit: 10, lapsedSince: Rows.now).touched == 2)
            let outbox = try await store.takeOutbox(now: Rows.seconds(3601), until: Rows.seconds(3700), limit: 9)
            #expect(Set(outbox.map(\.boundTo)) == [waiting.key, dead.key])
            #expect(outbox.allSatisfy { $0.tokens == Rows.sealed("pair") })
            for row in [waiting, dead] {
                let standing = try await store.exchange(row.key)
                #expect(standing?.outcome == .spent(.expired) && standing?.imported?.pairKeptAt == nil)
                #expect(try await store.keptPair(row.key) == nil)
            }
            #expect(try await store.keptPair(claimed.key) != nil)
        }
    }

    @Test(
        "A sweep after a day → codes are removed, imports stay; after 30 days → imports are removed, too",
        arguments: StoreEngine.allCases)
    func swept(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let (moved, released, code) = (importRow(), importRow(), Rows.exchange())
            let owner = try await claim(moved, store)
            _ = try await store.completeExchange(
                moved.key, fence: owner.fence, session: Rows.session(), replacing: nil, sessionLimit: 5)
            let other = try await claim(released, store)
            _ = try await store.releaseImport(released.key, fence: other.fence, ImportRelease(calls: 0))
            _ = try await store.mustClaim(code)
            let day: Int64 = 86_400
            _ = try await store.sweep(now: Rows.seconds(day - 1), limit: 10, lapsedSince: Rows.now)
            for row in [moved, released, code] { #expect(try await store.exchange(row.key) != nil) }
            _ = try await store.sweep(now: Rows.seconds(day), limit: 10, lapsedSince: Rows.now)
            #expect(try await store.exchange(code.key) == nil)
            #expect(try await store.exchange(released.key) == nil)
            _ = try await store.sweep(now: Rows.seconds(30 * day - 1), limit: 10, lapsedSince: Rows.now)
            #expect(try await store.exchange(moved.key) != nil)
            _ = try await store.sweep(now: Rows.seconds(30 * day), limit: 10, lapsedSince: Rows.now)
            #expect(try await store.exchange(moved.key) == nil)
        }
    }

    @Test(
        "An older release has claimed or released an import → claimed again with its calls, and with an import's marks",
        arguments: StoreEngine.allCases)
    func older(_ engine: StoreEngine) async throws {
        try await engine.withStore { store, clock in
            // The older release counted a call that the provider had answered with 503.
            let row = Rows.exchange()
            let owner = try await store.mustClaim(row)
            #expect(try await store.releaseExchange(row.key, fence: owner.fence, countingAttempt: true))
            let next = importRow(key: row.key)
            let claimed = try await claim(next, store)
            #expect(claimed.attempts == 1 && claimed.fence == 2 && claimed.imported == next.imported)
            #expect(try await store.exchange(row.key) == claimed)
            let dead = Rows.exchange()
            _ = try await store.mustClaim(dead)
            clock.advance(.seconds(26))
            #expect(try await claim(importRow(key: dead.key), store).attempts == 2)
        }
    }
}
