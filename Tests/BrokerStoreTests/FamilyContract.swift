import Broker
import BrokerStore
import Testing

/// Sessions and their children: places, endings and lists, on every engine.
@Suite("Store contract: families", .timeLimit(.minutes(2)))
struct FamilyContract {
    @Test(
        "A new child → is read back with all its values, and replaces the former child in its place",
        arguments: StoreEngine.allCases)
    func places(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let parent = Rows.session(sid: Rows.digest())
            try await store.signIn(parent)
            let place = Rows.digest()
            let first = Rows.child(of: parent, place: place, at: Rows.seconds(1))
            #expect(try await store.insertChild(first, places: 16) == .made(replaced: []))
            #expect(try await store.session(tokenDigest: first.tokenDigest) == first)
            // The first answer was lost. The repeated request leaves the row unchanged.
            #expect(try await store.insertChild(first, places: 1) == .made(replaced: []))
            #expect(try await store.session(tokenDigest: first.tokenDigest) == first)
            #expect(try await store.session(handle: first.handle) == first)
            let second = Rows.child(of: parent, place: place, at: Rows.seconds(2))
            #expect(try await store.insertChild(second, places: 16) == .made(replaced: [first.tokenDigest]))
            let replaced = try #require(try await store.session(tokenDigest: first.tokenDigest))
            #expect(replaced.endReason == .replaced && replaced.endedAt == Rows.seconds(2))
            let other = Rows.child(of: parent, at: Rows.seconds(3))
            #expect(try await store.insertChild(other, places: 16) == .made(replaced: []))
            #expect(try await store.children(of: [parent.tokenDigest], now: Rows.seconds(4)) == [second, other])
            #expect(try await store.children(of: [Rows.digest()], now: Rows.seconds(4)).isEmpty)
            #expect(try await store.children(of: [], now: Rows.seconds(4)).isEmpty)
        }
    }

    @Test(
        "A parent has as many children as it may → a further child is refused, until one of them has lapsed",
        arguments: StoreEngine.allCases)
    func full(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let parent = Rows.session()
            try await store.signIn(parent)
            let places = [Rows.digest(), Rows.digest()]
            let brief = Rows.child(of: parent, place: places[0], at: Rows.seconds(1), idle: .seconds(60))
            for child in [brief, Rows.child(of: parent, place: places[1], at: Rows.seconds(1))] {
                #expect(try await store.insertChild(child, places: 2) == .made(replaced: []))
            }
            #expect(try await store.insertChild(Rows.child(of: parent, at: Rows.seconds(2)), places: 2) == .full)
            let again = Rows.child(of: parent, place: places[1], at: Rows.seconds(2))
            guard case .made(let replaced) = try await store.insertChild(again, places: 2) else {
                Issue.record("the child was not replaced in its own place")
                return
            }
            #expect(replaced.count == 1)
            let late = Rows.child(of: parent, at: Rows.seconds(90))
            #expect(try await store.insertChild(late, places: 2) == .made(replaced: []))
            #expect(try await store.children(of: [parent.tokenDigest], now: Rows.seconds(91)) == [again, late])
            // The child `brief` lapsed a while ago. The new child still takes its place, and the result reports the end
            // of the old child.
            let anew = Rows.child(of: parent, place: places[0], at: Rows.seconds(92))
            #expect(try await store.insertChild(anew, places: 3) == .made(replaced: [brief.tokenDigest]))
        }
    }

    @Test(
        "A parent that is ended, lapsed, unknown or itself a child → cannot get a child",
        arguments: StoreEngine.allCases)
    func orphans(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let (ended, lapsed, lives) = (
                Rows.session(), Rows.session(at: Rows.seconds(-3600)), Rows.session()
            )
            for session in [ended, lapsed, lives] { try await store.signIn(session) }
            _ = try await store.endSessions(.token(ended.tokenDigest), reason: .admin, now: Rows.seconds(1))
            let child = Rows.child(of: lives, at: Rows.seconds(1))
            #expect(try await store.insertChild(child, places: 16) == .made(replaced: []))
            for parent in [ended, lapsed, child, Rows.session()] {
                let row = Rows.child(of: parent, at: Rows.seconds(2))
                #expect(try await store.insertChild(row, places: 16) == .parentEnded)
                #expect(try await store.session(tokenDigest: row.tokenDigest) == nil)
            }
        }
    }

    @Test(
        "A provider logs out a sid from before the parent's step-up → parent and child live on; the present sid → both end",
        arguments: StoreEngine.allCases)
    func outgrownSignIn(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let parent = Rows.session(sid: Rows.digest())
            try await store.signIn(parent)
            var child = Rows.child(of: parent, at: Rows.seconds(1))
            child.sid = Rows.digest()
            #expect(try await store.insertChild(child, places: 16) == .made(replaced: []))
            let before = SessionSelector.logout(sid: child.sid, subject: nil, clients: [parent.client])
            #expect(try await store.endSessions(before, reason: .providerLogout, now: Rows.seconds(2)) == [])
            #expect(try await store.session(tokenDigest: child.tokenDigest)?.endedAt == nil)
            let now = SessionSelector.logout(sid: parent.sid, subject: nil, clients: [parent.client])
            #expect(
                try await store.endSessions(now, reason: .providerLogout, now: Rows.seconds(3)) == [parent.tokenDigest])
            #expect(try await store.session(tokenDigest: child.tokenDigest)?.endReason == .parentEnded)
        }
    }

    /// The ways to end a session.
    enum Ending: CaseIterable { case token, subject, logoutToken, replaced, limit, condemned, lapsed }

    @Test(
        "A session ends in any way → its children, and no other sessions, end in the same transaction (guarantee 10)",
        arguments: StoreEngine.allCases)
    func together(_ engine: StoreEngine) async throws {
        for ending in Ending.allCases {
            try await engine.withStore { store in
                let parent = Rows.session(sid: Rows.digest())
                let other = Rows.session()
                for session in [parent, other] { try await store.signIn(session) }
                let children = [
                    Rows.child(of: parent, at: Rows.seconds(1)), Rows.child(of: parent, at: Rows.seconds(2)),
                ]
                let stranger = Rows.child(of: other, at: Rows.seconds(1), absolute: .seconds(900_000))
                for child in children + [stranger] {
                    #expect(try await store.insertChild(child, places: 16) == .made(replaced: []))
                }
                let time = ending == .lapsed ? Rows.seconds(100_000) : Rows.seconds(5)
                switch ending {
                case .token:
                    let ended = try await store.endSessions(.token(parent.tokenDigest), reason: .loggedOut, now: time)
                    #expect(ended == [parent.tokenDigest])
                case .subject: _ = try await store.endSessions(.subject(parent.subject), reason: .admin, now: time)
                case .logoutToken:
                    _ = try await store.consumeLogoutToken(
                        Rows.digest(), until: Rows.seconds(9000),
                        ending: .logout(sid: parent.sid, subject: nil, clients: [parent.client]), now: time, limit: 9)
                case .replaced:
                    let ended = try await store.signIn(Rows.session(at: time), replacing: parent.tokenDigest)
                    #expect(ended.replaced == [parent.tokenDigest])
                case .limit:
                    let new = Rows.session(subjectAndClient: parent.subjectAndClient, at: time)
                    #expect(try await store.signIn(new, sessionLimit: 1).beyondLimit == [parent.tokenDigest])
                case .condemned:
                    guard case .claimed(let grant) = try await store.claimRefresh(parent.tokenDigest) else {
                        Issue.record("the refresh claim was not granted")
                        return
                    }
                    #expect(
                        try await store.condemnRefresh(
                            tokenDigest: parent.tokenDigest, tokenVersion: 1, fence: grant.fence, reason: .grantRevoked,
                            now: time))
                case .lapsed: _ = try await store.sweep(now: time, limit: 100, lapsedSince: Rows.now)
                }
                #expect(try await store.session(tokenDigest: parent.tokenDigest)?.endedAt == time, "\(ending)")
                for child in children {
                    let row = try #require(try await store.session(tokenDigest: child.tokenDigest))
                    #expect(row.endedAt == time, "\(ending)")
                    #expect(row.lineage == child.lineage)
                    // A child's reason is not `parent_ended` in two cases: a selector that selects both sessions may end the
                    // child first; and a lapsed child ends by itself.
                    let isNamed = [.subject, .logoutToken, .lapsed].contains(ending)
                    #expect(isNamed || row.endReason == .parentEnded, "\(ending): \(String(describing: row.endReason))")
                    #expect(try await store.refreshState(child.tokenDigest)?.isEnded == true)
                }
                #expect(try await store.children(of: [parent.tokenDigest], now: time).isEmpty)
                if ending != .lapsed {
                    #expect(try await store.session(tokenDigest: stranger.tokenDigest) == stranger, "\(ending)")
                }
                // Only the parent's tokens are revoked, because a child has none. In the case `lapsed`, the session
                // `other` has ended, too.
                #expect(try await store.outboxCount() == (ending == .lapsed ? 2 : 1))
            }
        }
    }

    @Test("A child ends → the child's parent and siblings live on", arguments: StoreEngine.allCases)
    func alone(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let parent = Rows.session()
            try await store.signIn(parent)
            let (one, two) = (Rows.child(of: parent, at: Rows.seconds(1)), Rows.child(of: parent, at: Rows.seconds(1)))
            for child in [one, two] { _ = try await store.insertChild(child, places: 16) }
            let ended = try await store.endSessions(.token(one.tokenDigest), reason: .loggedOut, now: Rows.seconds(2))
            #expect(ended == [one.tokenDigest])
            #expect(try await store.session(tokenDigest: parent.tokenDigest) == parent)
            #expect(try await store.session(tokenDigest: two.tokenDigest) == two)
            #expect(try await store.outboxCount() == 0)
        }
    }

    @Test(
        "The list of living sessions → without children; of ended sessions → with them; all others are ended → own children stay",
        arguments: StoreEngine.allCases)
    func lists(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let subject = Rows.digest()
            let (one, two) = (
                Rows.session(subject: subject, at: Rows.now), Rows.session(subject: subject, at: Rows.seconds(1))
            )
            for session in [one, two] { try await store.signIn(session) }
            let (own, others) = (Rows.child(of: one, at: Rows.seconds(2)), Rows.child(of: two, at: Rows.seconds(2)))
            for child in [own, others] { _ = try await store.insertChild(child, places: 16) }
            for selector in [SessionSelector.subject(subject), .all] {
                #expect(
                    try await store.sessions(selector, .live, after: nil, limit: 9, now: Rows.seconds(3)) == [two, one])
            }
            #expect(
                try await store.sessions(.token(own.tokenDigest), .live, after: nil, limit: 9, now: Rows.seconds(3))
                    == [own])
            let ended = try await store.endSessions(
                .subjectExcept(subject, current: one.tokenDigest), reason: .loggedOutElsewhere, now: Rows.seconds(4))
            #expect(Set(ended).isSubset(of: [two.tokenDigest, others.tokenDigest]) && ended.contains(two.tokenDigest))
            #expect(try await store.session(tokenDigest: own.tokenDigest) == own)
            #expect(try await store.session(tokenDigest: others.tokenDigest)?.endedAt == Rows.seconds(4))
            let listed = try await store.sessions(.subject(subject), .ended, after: nil, limit: 9, now: Rows.seconds(5))
            #expect(Set(listed.map(\.tokenDigest)) == [two.tokenDigest, others.tokenDigest])
        }
    }

    @Test(
        "Children are made while their parent ends → each of them is refused, or ends, too",
        arguments: StoreEngine.allCases)
    func atOnce(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            for _ in 0..<12 {
                let parent = Rows.session()
                try await store.signIn(parent)
                let place = Rows.digest()
                let made = try await withThrowingTaskGroup(of: Digest?.self) { group in
                    for number in 0..<6 {
                        group.addTask {
                            let row = Rows.child(of: parent, place: place, at: Rows.seconds(1))
                            if case .made = try await store.insertChild(row, places: 16) { return row.tokenDigest }
                            return nil
                        }
                        guard number == 3 else { continue }
                        group.addTask {
                            _ = try await store.endSessions(
                                .token(parent.tokenDigest), reason: .admin, now: Rows.seconds(1), limit: 9)
                            return nil
                        }
                    }
                    return try await group.reduce(into: [Digest]()) { if let token = $1 { $0.append(token) } }
                }
                // Each child that was made has ended, no matter whether its insertion or the parent's ending came first.
                for token in made {
                    let row = try #require(try await store.session(tokenDigest: token))
                    #expect([.parentEnded, .replaced].contains(row.endReason))
                }
                #expect(try await store.children(of: [parent.tokenDigest], now: Rows.seconds(2)).isEmpty)
            }
        }
    }

    @Test("Many calls make children for one place at the same time → one child lives", arguments: StoreEngine.allCases)
    func onePlace(_ engine: StoreEngine) async throws {
        try await engine.withStore { store in
            let parent = Rows.session()
            try await store.signIn(parent)
            let place = Rows.digest()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<20 {
                    group.addTask {
                        let row = Rows.child(of: parent, place: place, at: Rows.seconds(1))
                        guard case .made = try await store.insertChild(row, places: 1) else {
                            Issue.record("the child was not made")
                            return
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await store.children(of: [parent.tokenDigest], now: Rows.seconds(2)).count == 1)
        }
    }
}
