import Broker
import BrokerStore
import Testing

@Suite("Store contract: moving, counting and resealing", .timeLimit(.minutes(2)))
struct AdministrationContract {
    /// Fills a store with rows of every kind.
    private func fill(_ store: any BrokerStore) async throws {
        let login = Rows.login()
        _ = try await store.insertLogin(login, limits: LoginLimits())
        _ = try await store.insertLogin(Rows.login(), limits: LoginLimits())
        _ = try await store.keepHandoff(Rows.handoff(login: login.state))
        try await store.insertRegistration(Rows.registration())
        _ = try await store.mustClaim(Rows.exchange(gate: .login(login.state)))
        let spent = try await store.mustClaim(Rows.exchange(proof: nil))
        _ = try await store.settleExchange(
            spent.key, fence: spent.fence, outcome: .spent(.rejected), outbox: [Rows.outbox()], registration: nil)
        var imported = Rows.exchange()
        imported.imported = ImportMarks(keptUntil: Rows.seconds(9))
        let importer = try await store.claimImport(imported, sparing: .none)
        #expect(importer == .claimed(imported))
        let pair = ImportPair(key: imported.key, tokens: Rows.sealed("pair"))
        _ = try await store.keepPair(pair, as: ImportMarks.attemptsWithPair, fence: imported.fence, at: Rows.seconds(4))
        try await store.noteImportGrant(Rows.digest(), at: Rows.now)
        for number in 0..<5 { try await store.signIn(Rows.session(sid: number == 1 ? Rows.digest() : nil)) }
        let (held, ended) = (Rows.session(), Rows.session())
        for session in [held, ended] { try await store.signIn(session) }
        _ = try await store.insertChild(Rows.child(of: held), places: 16)
        let other = try await store.mustClaimRefresh(held.tokenDigest)
        _ = try await store.keepTargetToken(
            Rows.targetToken(of: held.tokenDigest, version: other.fence), tokenVersion: 1, of: nil)
        _ = try await store.claimRefresh(
            RefreshClaim(
                tokenDigest: held.tokenDigest, tokenVersion: 1, name: Rows.claim(), lifetime: .seconds(25),
                now: Rows.now))
        _ = try await store.endSessions(.token(ended.tokenDigest), reason: .loggedOut, now: Rows.seconds(5), limit: 1)
        _ = try await store.consumeLogoutToken(
            Rows.digest(), until: Rows.seconds(600), ending: .sid(Rows.digest()), now: Rows.now, limit: 1)
        _ = try await store.acquireLease("sweeper", owner: "a", now: Rows.now, until: Rows.seconds(30))
        _ = try await store.countSeals(["k1": 7])
        try await store.appendAudit(
            AuditRow(at: Rows.now, actor: "ops", action: "end_session", target: "tag", outcome: "begun"))
    }

    /// Reads all rows of a store, in pages of `limit` rows.
    private func everything(_ store: any StoreAdministration, by limit: Int) async throws -> [StoredKind: [StoredRow]] {
        var found: [StoredKind: [StoredRow]] = [:]
        for kind in StoredKind.allCases {
            var cursor: [UInt8]?
            repeat {
                let page = try await store.rows(of: kind, after: cursor, limit: limit)
                #expect(page.unreadable == 0 && page.rows.count <= limit)
                found[kind, default: []] += page.rows
                cursor = page.next
            } while cursor != nil
        }
        return found
    }

    @Test("All rows are moved from one engine to another → the rows are unchanged", arguments: StoreEngine.allCases)
    func move(_ engine: StoreEngine) async throws {
        for target in [StoreEngine.inMemory, .sqlite, .postgresql] where target != engine || engine == .inMemory {
            try await engine.withStore { store in
                let source = try #require(store as? any StoreAdministration)
                try await fill(store)
                let rows = try await everything(source, by: 2)
                let counts = try await source.rowCounts()
                for kind in StoredKind.allCases {
                    #expect(rows[kind]?.count == counts[kind] && rows[kind]?.isEmpty == false, "\(kind)")
                }
                #expect(try await everything(source, by: 100) == rows)
                try await target.withStore { other in
                    let administered = try #require(other as? any StoreAdministration)
                    // The target store is empty. Only the rows that count seals are left out of this check.
                    for kind in StoredKind.allCases where kind != .seals {
                        #expect(try await administered.rows(of: kind, after: nil, limit: 1).rows.isEmpty)
                    }
                    for kind in StoredKind.allCases { try await administered.insert(rows[kind] ?? []) }
                    var moved = try await everything(administered, by: 3)
                    // A second insertion changes nothing, except in the audit.
                    for kind in StoredKind.allCases where kind != .audit {
                        try await administered.insert(rows[kind] ?? [])
                    }
                    #expect(try await everything(administered, by: 100) == moved)
                    moved[.seals] = rows[.seals]
                    for kind in StoredKind.allCases { #expect(moved[kind] == rows[kind], "\(kind)") }
                    // A refresh claim is copied with its session, so the new store refuses another claim.
                    var claims = 0
                    for case .session(let row, let marks)? in rows[.sessions]?.map({ Optional($0) }) ?? []
                    where marks.claimUntil != nil {
                        claims += 1
                        let other = try await other.claimRefresh(
                            RefreshClaim(
                                tokenDigest: row.tokenDigest, tokenVersion: 1, name: Rows.claim(),
                                lifetime: .seconds(25),
                                now: Rows.now))
                        #expect(other == .busy(for: .seconds(25)))
                    }
                    #expect(claims == 1)
                }
            }
        }
    }

    @Test(
        "Some sessions have ended or lapsed → only the living sessions are counted", arguments: StoreEngine.allCases)
    func live(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let administered = try #require(store as? any StoreAdministration)
            #expect(try await administered.liveSessions(now: Rows.now) == 0)
            try await fill(store)
            #expect(try await administered.liveSessions(now: Rows.now) == 7)
            let row = try #require(
                try await administered.rows(of: .sessions, after: nil, limit: 100).rows.compactMap { stored in
                    if case .session(let row, _) = stored, row.endedAt == nil { row } else { nil }
                }.first)
            let lapse = min(row.idleExpiresAt, row.expiresAt)
            #expect(try await administered.liveSessions(now: WallTime(milliseconds: lapse.milliseconds - 1)) == 7)
            #expect(try await administered.liveSessions(now: lapse) == 0)
        }
    }

    @Test(
        "A store has sealed values in every kind of row → all are found page by page, and counted by key",
        arguments: StoreEngine.allCases)
    func sealed(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let administered = try #require(store as? any StoreAdministration)
            #expect(try await administered.keyUse(exchangesSince: Rows.now).isEmpty)
            try await fill(store)
            let live = try #require(
                try await store.sessions(.all, .live, after: nil, limit: 9, now: Rows.now).first?.tokenDigest)
            #expect(try await store.registerPresence(Rows.presence(of: live)) == .committed)
            // The store has 33 sealed values. The sessions have 8 facts and 6 token sets. Further values are of 10 exchanges, 2
            // logins, a handoff, a registration and 2 outbox rows. The last three are a presence key, a token for another API,
            // and the kept pair of an import.
            #expect(try await administered.keyUse(exchangesSince: Rows.now) == ["k1": 33])
            #expect(try await administered.keyUse(exchangesSince: Rows.seconds(1)) == ["k1": 23])
            let wanted: [SealedPlace: Int] = [
                .facts: 8, .tokens: 6, .presence: 1, .logins: 2, .handoffs: 1, .registrations: 1, .outbox: 2,
                .targetTokens: 1, .importPairs: 1,
            ]
            for place in SealedPlace.allCases {
                var rows: [SealedRow] = []
                var cursor: Digest?
                repeat {
                    let page = try await administered.sealedRows(of: place, notUnder: "k2", after: cursor, limit: 2)
                    rows += page.rows
                    cursor = page.next
                } while cursor != nil
                #expect(rows.count == wanted[place] && rows.allSatisfy { $0.place == place }, "\(place)")
                #expect(
                    try await administered.sealedRows(of: place, notUnder: "k1", after: nil, limit: 99).rows.isEmpty)
                // The second attempt changes nothing, because the old envelope is gone.
                let new = Sealed(keyID: "k2", envelope: Array("again".utf8))
                #expect(try await administered.reseal(rows.map { ResealedRow($0, new: new) }) == rows.count)
                #expect(try await administered.reseal(rows.map { ResealedRow($0, new: new) }) == 0)
                #expect(
                    try await administered.sealedRows(of: place, notUnder: "k2", after: nil, limit: 99).rows.isEmpty)
            }
            #expect(try await administered.keyUse(exchangesSince: Rows.seconds(1)) == ["k2": 23])
        }
    }

    @Test(
        "A refresh commits during resealing → resealing does not overwrite the new tokens",
        arguments: StoreEngine.allCases)
    func compareAndSwap(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let administered = try #require(store as? any StoreAdministration)
            let session = Rows.session()
            try await store.signIn(session)
            let found = try await administered.sealedRows(of: .tokens, notUnder: "k2", after: nil, limit: 9).rows
            #expect(found.map(\.key) == [session.tokenDigest])
            let rotated = Rows.sealed("rotated", key: "k1")
            let result = try await store.commitRefresh(
                RefreshCommit(
                    tokenDigest: session.tokenDigest, tokenVersion: 1, tokens: rotated, facts: nil,
                    tokenExpiresAt: Rows.seconds(900), refreshable: true, expiresAt: nil, subjectUnchecked: false))
            #expect(result == .committed)
            let new = Sealed(keyID: "k2", envelope: Array("the old pair".utf8))
            #expect(try await administered.reseal(found.map { ResealedRow($0, new: new) }) == 0)
            #expect(try await store.session(tokenDigest: session.tokenDigest)?.tokens == rotated)
        }
    }
}
