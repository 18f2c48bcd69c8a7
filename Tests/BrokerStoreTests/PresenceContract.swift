import Broker
import BrokerStore
import BrokerTestSupport
import Testing

@Suite("Store contract: presence keys", .timeLimit(.minutes(2)))
struct PresenceContract {
    @Test(
        "A presence key → stored if the session lives and is not a child; a second key → reported, and changes nothing",
        arguments: StoreEngine.allCases)
    func refused(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let (session, ended) = (Rows.session(), Rows.session())
            for row in [session, ended] { try await store.signIn(row) }
            let child = Rows.child(of: session)
            _ = try await store.insertChild(child, places: 16)
            _ = try await store.endSessions(.token(ended.tokenDigest), reason: .loggedOut, now: Rows.now)
            for token in [ended.tokenDigest, child.tokenDigest, Rows.digest()] {
                #expect(try await store.registerPresence(Rows.presence(of: token)) == .ended)
            }
            #expect(try await store.session(tokenDigest: child.tokenDigest)?.presence == nil)
            let first = Rows.presence(of: session.tokenDigest, "first")
            #expect(try await store.registerPresence(first) == .committed)
            let standing = StoredPresence(first.sealed)
            #expect(
                try await store.registerPresence(Rows.presence(of: session.tokenDigest, "second"))
                    == .standing(standing))
            #expect(try await store.registerPresence(first) == .standing(standing))
            var expected = session
            expected.presence = standing
            expected.version = 2
            #expect(try await store.session(tokenDigest: session.tokenDigest) == expected)
            #expect(try await store.session(handle: session.handle)?.presence == standing)
        }
    }

    @Test(
        "Eight registrations of a presence key at the same time → one succeeds, and only this one has an audit record",
        arguments: StoreEngine.allCases)
    func race(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let results = try await withThrowingTaskGroup(of: PresenceCommitResult.self) { group in
                for number in 0..<8 {
                    group.addTask {
                        try await store.registerPresence(Rows.presence(of: session.tokenDigest, "key \(number)"))
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(results.count { $0 == .committed } == 1)
            let presence = try #require(try await store.session(tokenDigest: session.tokenDigest)?.presence)
            #expect(results.count { $0 == .standing(presence) } == 7)
            let administered = try #require(store as? any StoreAdministration)
            let audit = try await administered.rows(of: .audit, after: nil, limit: 99).rows
            #expect(audit.count == 1)
        }
    }

    @Test("Refreshes and step-ups → keep the presence key; an ending → removes it", arguments: StoreEngine.allCases)
    func kept(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let commit = Rows.presence(of: session.tokenDigest)
            #expect(try await store.registerPresence(commit) == .committed)
            let standing = StoredPresence(commit.sealed)
            func presence() async throws -> StoredPresence? {
                try await store.session(tokenDigest: session.tokenDigest)?.presence
            }
            let refreshed = try await store.commitRefresh(
                RefreshCommit(
                    tokenDigest: session.tokenDigest, tokenVersion: 1, tokens: Rows.sealed("next"), facts: nil,
                    tokenExpiresAt: Rows.seconds(900), refreshable: true, expiresAt: nil, subjectUnchecked: false))
            #expect(refreshed == .committed)
            #expect(try await presence() == standing)
            let exchange = try await store.mustClaim(Rows.exchange())
            let steppedUp = try await store.completeStepUp(
                StepUpCommit(
                    exchange: exchange.key, exchangeFence: exchange.fence, tokenDigest: session.tokenDigest,
                    tokenVersion: 2, version: 2, isNewGrant: true, tokens: Rows.sealed("another"),
                    facts: Rows.sealed("facts"),
                    sid: nil, tokenExpiresAt: nil, refreshable: true, idleExpiresAt: Rows.seconds(5000), now: Rows.now,
                    outbox: []))
            #expect(steppedUp == .committed)
            #expect(try await presence() == standing)
            let administered = try #require(store as? any StoreAdministration)
            let moved = try await administered.rows(of: .sessions, after: nil, limit: 9).rows
            #expect(moved.contains { if case .session(let row, _) = $0 { row.presence == standing } else { false } })
            _ = try await store.endSessions(.token(session.tokenDigest), reason: .loggedOut, now: Rows.now)
            #expect(try await presence() == nil)
            #expect(
                try await administered.sealedRows(of: .presence, notUnder: "none", after: nil, limit: 9).rows.isEmpty)
        }
    }

    @Test(
        "A session with a presence key is moved to another store → the key is moved, too",
        arguments: StoreEngine.allCases)
    func moved(_ engine: StoreEngine) async throws {
        let session = Rows.session()
        let commit = Rows.presence(of: session.tokenDigest)
        var rows: [StoredRow] = []
        try await engine.withStore { store in
            try await store.signIn(session)
            _ = try await store.registerPresence(commit)
            let administered = try #require(store as? any StoreAdministration)
            rows = try await administered.rows(of: .sessions, after: nil, limit: 9).rows
        }
        try await engine.withStore { store in
            let administered = try #require(store as? any StoreAdministration)
            try await administered.insert(rows)
            let row = try await store.session(tokenDigest: session.tokenDigest)
            #expect(row?.presence == StoredPresence(commit.sealed))
        }
    }
}
