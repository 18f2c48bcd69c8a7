import Broker
import BrokerStore
import Testing

@Suite("Store contract: sessions", .timeLimit(.minutes(2)))
struct SessionContract {
    @Test(
        "A session → found with all its values by its digest or its handle, and by nothing else",
        arguments: StoreEngine.allCases)
    func lookUp(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            var session = Rows.session(sid: Rows.digest())
            // The row has a time after 2038, and nil for every optional value (SEC-128).
            session.expiresAt = WallTime(seconds: 9_000_000_000)
            try await store.signIn(session)
            var bare = Rows.session()
            bare.tokenExpiresAt = nil
            bare.refreshable = false
            try await store.signIn(bare)
            #expect(try await store.session(tokenDigest: session.tokenDigest) == session)
            #expect(try await store.session(handle: session.handle) == session)
            #expect(try await store.session(tokenDigest: bare.tokenDigest) == bare)
            #expect(try await store.session(tokenDigest: Rows.digest()) == nil)
            #expect(try await store.session(handle: Rows.handle()) == nil)
        }
    }

    @Test(
        "Sessions are listed or ended by a selector → exactly these sessions; by the digest of an unknown sid → none (SEC-68)",
        arguments: StoreEngine.allCases)
    func selectors(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            for position in 0..<9 {
                let (subject, provider, client, sid) = (Rows.digest(), Rows.digest(), Rows.digest(), Rows.digest())
                let a = Rows.session(
                    subject: subject, sid: sid, provider: provider, client: client, at: Rows.seconds(1))
                let b = Rows.session(subject: subject, provider: provider, at: Rows.seconds(2))
                let c = Rows.session(sid: Rows.digest(), provider: provider, client: client, at: Rows.seconds(3))
                let d = Rows.session(at: Rows.seconds(4))
                for session in [a, b, c, d] { try await store.signIn(session) }
                let expectations: [(SessionSelector, [SessionRow])] = [
                    (.token(a.tokenDigest), [a]), (.handle(b.handle), [b]), (.subject(subject), [b, a]),
                    (.subjectExcept(subject, current: a.tokenDigest), [b]), (.sid(sid), [a]),
                    (.provider(provider), [c, b, a]), (.client(client), [c, a]), (.sid(Rows.digest()), []),
                    (.all, [d, c, b, a]),
                ]
                for (selector, expected) in expectations {
                    let found = try await store.sessions(selector, .live, after: nil, limit: 10, now: Rows.seconds(5))
                    #expect(found == expected, "\(selector)")
                }
                let (selector, expected) = expectations[position]
                let ended = try await store.endSessions(selector, reason: .admin, now: Rows.seconds(6))
                #expect(Set(ended) == Set(expected.map(\.tokenDigest)), "\(selector)")
                #expect(ended.count == expected.count)
                let rest = try await store.endSessions(.all, reason: .admin, now: Rows.seconds(7))
                #expect(rest.count == 4 - expected.count)
                #expect(try await store.sessions(.all, .live, after: nil, limit: 10, now: Rows.seconds(6)).isEmpty)
            }
        }
    }

    @Test(
        "A list of sessions with equal times is read page by page → each living session occurs once, newest first",
        arguments: StoreEngine.allCases
    )
    func pages(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let subject = Rows.digest()
            for index in 0..<25 {
                try await store.signIn(Rows.session(subject: subject, at: Rows.seconds(Int64(index / 6))))
            }
            let lapsed = Rows.session(subject: subject, at: Rows.seconds(-8000))
            try await store.signIn(lapsed)
            for selector in [SessionSelector.subject(subject), .all] {
                var collected: [SessionRow] = []
                var cursor: SessionCursor?
                while true {
                    let page = try await store.sessions(
                        selector, .live, after: cursor, limit: 4, now: Rows.seconds(10))
                    collected += page
                    guard let last = page.last else { break }
                    cursor = SessionCursor(after: last)
                }
                #expect(collected.count == 25)
                #expect(Set(collected.map(\.tokenDigest)).count == 25)
                let order = collected.map { ($0.createdAt, $0.handle.text) }
                #expect(zip(order, order.dropFirst()).allSatisfy { $0 > $1 })
            }
        }
    }

    @Test(
        "A session is ended twice → the first reason stays, and the tokens go to the outbox once (SEC-62)",
        arguments: StoreEngine.allCases)
    func endedOnce(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session(sid: Rows.digest())
            try await store.signIn(session)
            let ended = try await withThrowingTaskGroup(of: [Digest].self) { group in
                for _ in 0..<50 {
                    group.addTask {
                        try await store.endSessions(
                            .token(session.tokenDigest), reason: .loggedOut, now: Rows.seconds(1))
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(ended == [session.tokenDigest])
            #expect(try await store.endSessions(.handle(session.handle), reason: .admin, now: Rows.seconds(2)) == [])
            let row = try #require(try await store.session(tokenDigest: session.tokenDigest))
            #expect(row.endReason == .loggedOut)
            #expect(row.endedAt == Rows.seconds(1))
            #expect(row.tokens == nil)
            #expect(row.facts == session.facts)
            #expect(try await store.outboxCount() == 1)
            let selector = SessionSelector.subject(session.subject)
            #expect(try await store.sessions(selector, .live, after: nil, limit: 9, now: Rows.now).isEmpty)
            #expect(try await store.sessions(selector, .ended, after: nil, limit: 9, now: Rows.now) == [row])
        }
    }

    @Test(
        "The list of ended sessions → in the order of their ends, with reason and facts, and without other sessions",
        arguments: StoreEngine.allCases)
    func ended(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let (subject, provider, client) = (Rows.digest(), Rows.digest(), Rows.digest())
            let mine = (0..<7).map {
                Rows.session(subject: subject, provider: provider, client: client, at: Rows.seconds($0))
            }
            let others = [Rows.session(provider: provider), Rows.session(client: client), Rows.session()]
            let lapsed = Rows.session(subject: subject, provider: provider, client: client, at: Rows.seconds(-8000))
            for session in mine + others + [lapsed] { try await store.signIn(session) }
            // The sessions end in another order than they were created, and two of them end at the same time. The subject's
            // last session does not end.
            for (index, second) in [(3, 10), (0, 20), (5, 20), (1, 30), (4, 40), (2, 50)] {
                _ = try await store.endSessions(
                    .token(mine[index].tokenDigest), reason: .grantRevoked, now: Rows.seconds(Int64(second)))
            }
            for session in others {
                _ = try await store.endSessions(.token(session.tokenDigest), reason: .admin, now: Rows.seconds(60))
            }
            let tied = [mine[0], mine[5]].sorted { $0.handle.text > $1.handle.text }
            let expected = ([mine[2], mine[4], mine[1]] + tied + [mine[3]]).map(\.tokenDigest)
            for (selector, more) in [
                (SessionSelector.subject(subject), 0), (.provider(provider), 1), (.client(client), 1), (.all, 3),
            ] {
                var collected: [SessionRow] = []
                var cursor: SessionCursor?
                while true {
                    let page = try await store.sessions(
                        selector, .ended, after: cursor, limit: 2, now: Rows.seconds(100))
                    collected += page
                    guard let last = page.last else { break }
                    cursor = SessionCursor(after: last)
                }
                #expect(collected.dropFirst(more).map(\.tokenDigest) == expected, "\(selector)")
                #expect(collected.dropFirst(more).allSatisfy { $0.endReason == .grantRevoked && $0.tokens == nil })
                #expect(collected.prefix(more).allSatisfy { $0.endReason == .admin && $0.endedAt == Rows.seconds(60) })
            }
        }
    }

    @Test("Each end reason → read back unchanged", arguments: StoreEngine.allCases)
    func reasons(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            for reason in EndReason.allCases {
                let session = Rows.session()
                try await store.signIn(session)
                _ = try await store.endSessions(.token(session.tokenDigest), reason: reason, now: Rows.now)
                #expect(try await store.session(tokenDigest: session.tokenDigest)?.endReason == reason)
            }
        }
    }

    @Test(
        "A slide to a later idle end → stored; to an earlier one, or of a lapsed or ended session → changes nothing",
        arguments: StoreEngine.allCases)
    func slide(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            func slide(_ used: Int64, _ idle: Int64) async throws -> [WallTime] {
                try await store.slideSession(
                    tokenDigest: session.tokenDigest, lastUsedAt: Rows.seconds(used), idleExpiresAt: Rows.seconds(idle))
                let row = try #require(try await store.session(tokenDigest: session.tokenDigest))
                return [row.lastUsedAt, row.idleExpiresAt]
            }
            #expect(try await slide(100, 3700) == [Rows.seconds(100), Rows.seconds(3700)])
            #expect(try await slide(50, 3650) == [Rows.seconds(100), Rows.seconds(3700)])
            // A use after the idle end does not revive the session.
            #expect(try await slide(3700, 7300) == [Rows.seconds(100), Rows.seconds(3700)])
            _ = try await store.endSessions(.token(session.tokenDigest), reason: .loggedOut, now: Rows.seconds(200))
            #expect(try await slide(300, 3900) == [Rows.seconds(100), Rows.seconds(3700)])
            try await store.slideSession(
                tokenDigest: Rows.digest(), lastUsedAt: Rows.seconds(1), idleExpiresAt: Rows.seconds(2))
        }
    }

    @Test(
        "A session's use is written late → moves the idle end, up to the absolute end, if the session lived when it was used",
        arguments: StoreEngine.allCases)
    func slideLate(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            let (idle, end) = (session.idleExpiresAt, session.expiresAt)
            func slide(_ used: WallTime, _ alive: WallTime) async throws -> WallTime {
                try await store.slideSession(
                    tokenDigest: session.tokenDigest, lastUsedAt: used, idleExpiresAt: used.advanced(by: .seconds(60)),
                    aliveAt: alive)
                return try #require(try await store.session(tokenDigest: session.tokenDigest)).lastUsedAt
            }
            let late = idle.advanced(by: .seconds(5))
            // At the time of these uses, the session had already lapsed, by its idle end or by its absolute end.
            #expect(try await slide(late, idle) == session.lastUsedAt)
            #expect(try await slide(end, idle.advanced(by: .seconds(-1))) == session.lastUsedAt)
            guard late < end else { return }
            #expect(try await slide(late, idle.advanced(by: .seconds(-1))) == late)
        }
    }

    @Test(
        "A session is used with a shorter idle time than before → its idle end stays, because the later of both ends applies",
        arguments: StoreEngine.allCases)
    func slideShorter(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let session = Rows.session()
            try await store.signIn(session)
            try await store.slideSession(
                tokenDigest: session.tokenDigest, lastUsedAt: session.lastUsedAt.advanced(by: .seconds(1)),
                idleExpiresAt: session.lastUsedAt.advanced(by: .seconds(2)))
            #expect(
                try await store.session(tokenDigest: session.tokenDigest)?.idleExpiresAt == session.idleExpiresAt)
        }
    }
}
