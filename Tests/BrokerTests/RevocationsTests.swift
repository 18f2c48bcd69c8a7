import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// The provider calls of the outbox after sessions have ended: revocations of tokens, and log-outs at the provider.
@Suite(.timeLimit(.minutes(2))) struct RevocationsTests {
    /// Returns two numbers of provider calls: the revocations of tokens, and the ends of the provider's session.
    private func told(_ broker: TestBroker) -> [Int] {
        broker.provider.script.withLock { [$0.revoked, $0.sessionsEnded] }
    }

    @Test("A user logs out → the tokens are revoked, then the provider's session is ended, with one call each (SEC-63)")
    func logOut() async throws {
        let broker = try TestBroker(script: .init(sid: "sid-1"))
        try await broker.useCases.endSession.logOut(broker.signIn().token)
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(told(broker) == [1, 1])
        #expect(try await broker.store.outboxCount() == 0)
    }

    @Test(
        "A session ends → its tokens are revoked unless it was exported; only logged_out, logged_out_elsewhere or admin end the provider's session",
        arguments: EndReason.allCases)
    func reasons(_ reason: EndReason) async throws {
        let broker = try TestBroker(script: .init(sid: "sid-1"))
        let token = try await broker.signIn().token
        try await broker.useCases.endSession.end(.token(broker.vault.digest(token)), reason: reason)
        _ = try await Revocations(broker.context).work()
        let loggedOut = [.loggedOut, .loggedOutElsewhere, .admin].contains(reason)
        #expect(told(broker) == [reason == .exported ? 0 : 1, loggedOut ? 1 : 0])
    }

    @Test("An exported session's older tokens wait in the outbox → they stay valid, as another system uses their grant")
    func exported() async throws {
        let broker = try TestBroker(script: .init(sid: "sid-1"))
        let tokenDigest = try await broker.vault.digest(broker.signIn().token)
        let row = try #require(try await broker.store.session(tokenDigest: tokenDigest))
        try await broker.store.addOutbox([
            OutboxRow(
                id: broker.vault.digest(Array("older".utf8)), boundTo: tokenDigest, tokens: try #require(row.tokens),
                createdAt: broker.clock.now, nextAttemptAt: broker.clock.now)
        ])
        try await broker.useCases.endSession.end(.token(tokenDigest), reason: .exported)
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(told(broker) == [0, 0])
        #expect(try await broker.store.outboxCount() == 0)
    }

    @Test(
        "A user logs out while another session from the same sign-in lives → the provider's session stays",
        arguments: ["sid-1", nil]
    )
    func shared(_ sid: String?) async throws {
        let broker = try TestBroker(script: .init(sid: sid))
        let one = try await broker.signIn(code: "c1")
        let two = try await broker.signIn(code: "c2")
        try await broker.useCases.endSession.logOut(one.token)
        _ = try await Revocations(broker.context).work()
        #expect(told(broker) == [1, 0])
        try await broker.useCases.endSession.logOut(two.token)
        _ = try await Revocations(broker.context).work()
        #expect(told(broker) == [2, 1])
    }

    @Test("A user logs out while a session from another sign-in lives → the provider's session ends")
    func otherSignIn() async throws {
        let broker = try TestBroker(script: .init(sid: "sid-1"))
        let one = try await broker.signIn(code: "c1")
        broker.provider.script.withLock { $0.sid = "sid-2" }
        _ = try await broker.signIn(code: "c2")
        try await broker.useCases.endSession.logOut(one.token)
        _ = try await Revocations(broker.context).work()
        #expect(told(broker) == [1, 1])
    }

    @Test(
        "A revocation would also end a living session → dropped; no living session is left in its reach → sent (guarantee 3)",
        arguments: RevocationReach.allCases)
    func reach(_ reach: RevocationReach) async throws {
        let broker = try TestBroker(script: .init(sid: "sid-1"), reach: reach)
        let one = try await broker.signIn(code: "c1")
        broker.provider.script.withLock { $0.sid = "sid-2" }
        let other = try await broker.signIn(code: "c2")
        let same = try await broker.signIn(code: "c3")
        let revocations = Revocations(broker.context)
        var revoked: [Int] = []
        for session in [one, other, same] {
            try await broker.useCases.endSession.logOut(session.token)
            #expect(try await revocations.work() == 1)
            #expect(try await broker.store.outboxCount() == 0)
            revoked.append(told(broker)[0])
        }
        let expected: [RevocationReach: [Int]] = [.token: [1, 2, 3], .signIn: [1, 1, 2], .user: [0, 0, 1]]
        #expect(revoked == expected[reach])
    }

    @Test(
        "A device signs in again → the revocation of its replaced session does not end the new login",
        arguments: [(RevocationReach.token, 1), (.signIn, 0), (.user, 0)])
    func replaced(_ reach: RevocationReach, _ revoked: Int) async throws {
        let broker = try TestBroker(script: .init(sid: "sid-1"), reach: reach)
        let old = try await broker.signIn(code: "c1")
        let login = try await broker.start()
        _ = try await broker.forward(broker.callback(login, code: "c2"), login.loginToken, session: old.token)
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(told(broker) == [revoked, 0])
    }

    @Test(
        "Tokens are to be revoked, and their user is unknown → revoked, unless the provider would end all tokens of this user",
        arguments: [(RevocationReach.token, 1), (.signIn, 1), (.user, 0)])
    func unknownOrigin(_ reach: RevocationReach, _ revoked: Int) async throws {
        let broker = try TestBroker(script: .init(identify: [.identityRejected(detail: "")]), reach: reach)
        #expect(await problem { try await broker.signIn() }?.code == .identityRejected)
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(told(broker) == [revoked, 0])
    }

    @Test(
        "All tokens of a user are being revoked → the user's sign-in waits; the sign-in began first → the revocation is dropped"
    )
    func signInUnderWay() async throws {
        let broker = try TestBroker(script: .init(hangs: ["at-1"]), reach: .user)
        let one = try await broker.signIn(code: "c1")
        try await broker.useCases.endSession.logOut(one.token)
        broker.provider.hanging.close()
        let revocations = Revocations(broker.context)
        #expect(try await revocations.begin() == 1)
        try await eventually("revocations hang at the provider") { broker.provider.hanging.waiting >= 1 }
        let signingIn = Task { try await broker.signIn(code: "c2") }
        try await eventually("the second sign-in is at the provider") {
            broker.provider.script.withLock({ $0.contexts.count }) >= 2
        }
        await broker.settled()
        let origin = SignInOrigin(subject: broker.vault.index(.subject, ["https://as.example", "user-1"]), sid: nil)
        #expect(broker.context.memory.signIns.isRevoking(origin))
        #expect(try await broker.store.sessions(.all, .live, after: nil, limit: 9, now: broker.clock.now).isEmpty)
        broker.provider.hanging.open()
        let two = try await signingIn.value
        #expect(!broker.context.memory.signIns.isRevoking(origin))
        // Now the other order: the sign-in comes first, and then the revocation.
        let signIns = broker.context.memory.signIns
        signIns.enter(broker.vault.digest(Secret("exchange")), origin)
        try await broker.useCases.endSession.logOut(two.token)
        #expect(try await revocations.work() == 1)
        #expect(told(broker)[0] == 1)
        signIns.leave(broker.vault.digest(Secret("exchange")))
    }

    @Test(
        "A revocation is dropped because another session of the user lives → further logins of this user need not wait")
    func leftOut() async throws {
        let broker = try TestBroker(script: .init(sid: "sid-1"), reach: .user)
        let one = try await broker.signIn(code: "c1")
        _ = try await broker.signIn(code: "c2")
        try await broker.useCases.endSession.logOut(one.token)
        #expect(try await Revocations(broker.context).work() == 1)
        #expect(told(broker) == [0, 0])
        let origin = SignInOrigin(try #require(try await broker.store.session(handle: one.session.handle)))
        #expect(!broker.context.memory.signIns.isRevoking(origin))
        // The sign-in goes on during the revocation. A sign-in that waits would never end here, because this test's clock
        // stands still.
        let third = await problem { try await broker.signIn(code: "c3") }
        #expect(third == nil)
    }

    @Test("A provider is known to be unavailable → revocations there wait without a call, and no attempt is counted")
    func refusedCalls() async throws {
        let broker = try TestBroker(script: .init(refusesCallsFor: .seconds(30)))
        try await broker.useCases.endSession.logOut(broker.signIn().token)
        let revocations = Revocations(broker.context)
        #expect(try await revocations.work() == 1)
        broker.clock.advance(.seconds(29))
        #expect(try await revocations.work() == 0)
        #expect(told(broker) == [0, 0])
        broker.provider.script.withLock { $0.refusesCallsFor = nil }
        broker.clock.advance(.seconds(1))
        #expect(try await revocations.work() == 1)
        #expect(told(broker) == [1, 1])
    }

    @Test("A revocation or log-out call fails → a temporary fault is retried a minute later, a refusal is not (SEC-63)")
    func failures() async throws {
        let passing: [ProviderFailure] = [
            .notSent(detail: ""), .retryable(status: 503, retryAfter: nil, detail: ""), .lost(detail: ""),
        ]
        let final: [ProviderFailure] = [.rejected(OAuthError(status: 400, code: "x")), .unusable(detail: "")]
        var cases: [(revoke: [ProviderFailure], endSession: [ProviderFailure], first: [Int], then: [Int])] = []
        for failure in passing {
            cases.append(([failure], [], [1, 0], [2, 1]))
            cases.append(([], [failure], [1, 1], [2, 2]))
        }
        for failure in final {
            cases.append(([failure], [], [1, 1], [1, 1]))
            cases.append(([], [failure], [1, 1], [1, 1]))
        }
        for (revoke, endSession, first, then) in cases {
            let broker = try TestBroker(script: .init(revoke: revoke, endSession: endSession))
            try await broker.useCases.endSession.logOut(broker.signIn().token)
            _ = try await Revocations(broker.context).work()
            #expect(told(broker) == first)
            #expect(try await Revocations(broker.context).work() == 0)
            broker.clock.advance(.seconds(60))
            _ = try await Revocations(broker.context).work()
            #expect(told(broker) == then)
            #expect(try await broker.store.outboxCount() == 0)
        }
    }

    @Test("A sign-in makes no session → its tokens are revoked, and the provider's session stays")
    func noSession() async throws {
        let broker = try TestBroker(script: .init(identify: [.identityRejected(detail: "")]))
        #expect(await problem { try await broker.signIn() }?.code == .identityRejected)
        _ = try await Revocations(broker.context).work()
        #expect(told(broker) == [1, 0])
    }

    @Test(
        "Six revocations wait at a provider that hangs → the broker makes two calls at a time; waiting is not an attempt",
        .timeLimit(.minutes(1)))
    func twoAtATime() async throws {
        let broker = try TestBroker(script: .init(hangs: (1...6).map { "at-\($0)" }))
        for index in 1...6 {
            let token = try await broker.signIn(code: "c\(index)").token
            try await broker.useCases.endSession.logOut(token)
        }
        broker.provider.hanging.close()
        let revocations = Revocations(broker.context)
        #expect(try await revocations.begin() == 6)
        try await eventually("revocations hang at the provider") { broker.provider.hanging.waiting >= 2 }
        await broker.settled()
        #expect(broker.provider.hanging.waiting == 2)
        #expect(told(broker)[0] == 2)
        broker.provider.hanging.open()
        try await eventually("the revocations that do not hang are done") { try await broker.store.outboxCount() <= 4 }
        broker.clock.advance(.seconds(2))
        while try await broker.store.outboxCount() > 0 {
            try Task.checkCancellation()
            _ = try await revocations.work()
            broker.clock.advance(.seconds(2))
        }
        #expect(told(broker)[0] == 6)
    }

    @Test("Sixty log-outs at a provider that answers at once → all tokens are revoked within four seconds")
    func fast() async throws {
        let broker = try TestBroker()
        for number in 0..<60 {
            try await broker.useCases.endSession.logOut(try await broker.signIn(code: "c\(number)").token)
        }
        let revocations = Revocations(broker.context)
        var steps = 0
        while try await broker.store.outboxCount() > 0, steps < 1_000 {
            if try await revocations.work() == 0 { broker.clock.advance(.milliseconds(200)) }
            broker.clock.advance(.milliseconds(50))
            steps += 1
        }
        #expect(told(broker) == [60, 60])
        // An earlier release allowed two calls in two seconds. It would need a minute for these rows.
        #expect(broker.clock.monotonic - TestClock().monotonic < .seconds(4))
    }

    @Test(
        "A provider answers revocations fast → its full share of calls at a time; slowly → half of it; it fails → two"
    )
    func share() {
        let slots = RevocationSlots()
        let (provider, share) = (ProviderName(unchecked: "as"), RevocationSlots.share(of: 40))
        #expect(share == 10 && RevocationSlots.share(of: 4) == 2)
        #expect(RevocationSlots.share(of: 256) == 24)
        func begin() -> Int {
            var count = 0
            while slots.begin(provider, share: share, at: .zero) == nil { count += 1 }
            return count
        }
        func end(_ count: Int, _ answer: RevocationSlots.Answer, after length: Duration = .milliseconds(5)) {
            for _ in 0..<count { slots.end(provider, answer, begun: .zero, at: length) }
        }
        for calls in [2, 4, 8, 10, 10] {
            #expect(begin() == calls)
            end(calls, .final)
        }
        // If a row needed no provider call, the limit stays.
        #expect(begin() == 10)
        // A row that has to wait for a free call is due again after 250 ms. At a slow provider, it is due later.
        #expect(slots.begin(provider, share: share, at: .seconds(100)) == .milliseconds(250))
        end(10, .none)
        #expect(begin() == 10)
        // If several slow answers come at the same time, the limit is halved only once, because one busy moment makes all of
        // them slow.
        end(9, .final, after: .seconds(2))
        end(1, .none)
        #expect(begin() == 5)
        for _ in 0..<5 { slots.end(provider, .final, begun: .seconds(3), at: .seconds(5)) }
        #expect(begin() == 2)
        for _ in 0..<2 { slots.end(provider, .final, begun: .seconds(6), at: .seconds(8)) }
        #expect(begin() == 2)
        #expect(slots.begin(provider, share: share, at: .seconds(200)) == .seconds(2))
        end(2, .final)
        #expect(begin() == 4)
        end(4, .failed)
        #expect(begin() == 2)
        end(2, .failed)
        #expect(slots.underWay(provider) == 0)
    }

    @Test(
        "A hundred thousand outbox rows must wait for a free call to their provider → they become due one after the other"
    )
    func oneAfterTheOther() {
        let slots = RevocationSlots()
        let (provider, other) = (ProviderName(unchecked: "as"), ProviderName(unchecked: "other"))
        for _ in 0..<2 { #expect(slots.begin(provider, share: 24, at: .zero) == nil) }
        let waits = (0..<100_000).map { _ in slots.begin(provider, share: 24, at: .zero) ?? .zero }
        #expect(waits.first == .seconds(2) && waits.last == .seconds(2) + RevocationSlots.apart * 99_999)
        #expect(zip(waits, waits.dropFirst()).allSatisfy { $1 - $0 == RevocationSlots.apart })
        #expect(RevocationSlots.apart * 100_000 <= .seconds(300))
        #expect(slots.putOff(provider, for: .seconds(900), at: .zero) == .seconds(900))
        #expect(slots.begin(other, share: 24, at: .zero) == nil)
        #expect(slots.putOff(other, at: .zero) == .milliseconds(250))
    }

    @Test(
        "One provider is down with 2,000 revocations waiting → a log-out at another provider is revoked at once",
        arguments: [true, false])
    func backlogOfAnother(isDead: Bool) async throws {
        let clock = TestClock()
        let profile = ProviderProfile(
            name: ProviderName(unchecked: "away"), kind: .oidc, displayName: "Away", issuer: "https://away.example",
            callbackIssuer: "https://away.example",
            clients: [ClientProfile(name: ClientName(unchecked: "ios"), redirectURIs: [])])
        let away = ScriptedProvider(profile: profile, clock: clock)
        away.script.withLock { $0.refusesCallsFor = isDead ? .seconds(30) : nil }
        away.hanging.close()
        let broker = try TestBroker(also: [away], clock: clock)
        let key = broker.vault.digest(Secret("nobody's"))
        let tokens = StoredTokens(
            provider: profile.name, client: ClientName(unchecked: "ios"),
            tokens: TokenSet(accessToken: Secret("at-away")),
            issuedAt: clock.now)
        away.script.withLock { $0.hangs = ["at-away"] }
        let sealed = try broker.vault.seal(tokens.record, as: .tokens, row: key)
        let rows = try (0..<2_000).map { _ in
            OutboxRow(
                id: broker.vault.digest(try broker.vault.random(32)), boundTo: key, tokens: sealed,
                createdAt: clock.now,
                nextAttemptAt: clock.now)
        }
        try await broker.store.addOutbox(rows)
        let session = try await broker.signIn()
        let revocations = Revocations(broker.context)
        // One call of `begin` at each due time is enough for all waiting rows.
        while try await revocations.begin() > 0 { await broker.settled() }
        for _ in 0..<130 {
            clock.advance(.milliseconds(250))
            _ = try await revocations.begin()
        }
        await broker.settled()
        try await broker.useCases.endSession.logOut(session.token)
        for _ in 0..<3 where told(broker)[0] == 0 {
            _ = try await revocations.begin()
            await broker.settled()
            clock.advance(.milliseconds(50))
        }
        #expect(told(broker)[0] == 1)
        away.hanging.open()
    }

    @Test(
        "A provider answers a revocation with 429 and a time → all its rows wait until then, and this attempt does not count"
    )
    func tooMany() async throws {
        let busy = ProviderFailure.retryable(status: 429, retryAfter: .seconds(20), detail: "")
        let broker = try TestBroker(script: .init(revoke: [busy]))
        for number in 0..<5 {
            try await broker.useCases.endSession.logOut(try await broker.signIn(code: "c\(number)").token)
        }
        let revocations = Revocations(broker.context)
        _ = try await revocations.work(limit: 1)
        #expect(told(broker) == [1, 0])
        for _ in 0..<9 {
            _ = try await revocations.work()
            broker.clock.advance(.seconds(2))
        }
        #expect(told(broker) == [1, 0])
        broker.clock.advance(.seconds(2))
        for _ in 0..<20 {
            _ = try await revocations.work()
            broker.clock.advance(.seconds(1))
        }
        #expect(told(broker) == [6, 5])
        #expect(try await broker.store.outboxCount() == 0)
    }

    @Test(
        "A revocation gets a 429 without a time → the provider's rows wait half a minute; the 429 names a day → they wait an hour"
    )
    func restTimes() {
        typealias Answer = RevocationSlots.Answer
        func rest(_ status: Int, _ retryAfter: Duration?) -> Answer {
            Answer(.retryable(status: status, retryAfter: retryAfter, detail: ""))
        }
        #expect(rest(429, nil) == .refused(.seconds(30)))
        #expect(rest(429, .zero) == .refused(.seconds(1)))
        #expect(rest(429, .seconds(86_400)) == .refused(.seconds(3600)))
        #expect(rest(503, .seconds(7)) == .refused(.seconds(7)))
        #expect(rest(503, nil) == .failed)
    }

    @Test(
        "The broker finds the outbox empty three times → all places for calls stay free, and a later revocation is sent"
    )
    func placesWithoutWork() async throws {
        let broker = try TestBroker()
        let revocations = Revocations(broker.context)
        for _ in 0..<3 { #expect(try await revocations.begin() == 0) }
        try await broker.useCases.endSession.logOut(try await broker.signIn().token)
        #expect(try await revocations.begin() == 1)
        try await eventually("the outbox is empty") { try await broker.store.outboxCount() == 0 }
    }

    @Test(
        "A revocation fails repeatedly → the pause before the next attempt doubles, from a minute up to an hour",
        .timeLimit(.minutes(1))
    )
    func pauses() async throws {
        let down = ProviderFailure.retryable(status: 503, retryAfter: nil, detail: "")
        let broker = try TestBroker(script: .init(revoke: Array(repeating: down, count: 9)))
        try await broker.useCases.endSession.logOut(broker.signIn().token)
        let revocations = Revocations(broker.context)
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            #expect(try await revocations.work() == 1)
            broker.clock.advance(.seconds(minutes * 60 - 1))
            #expect(try await revocations.work() == 0, "\(minutes)")
            broker.clock.advance(.seconds(1))
        }
    }

    @Test("A revocation fails for three days → it is given up", .timeLimit(.minutes(1)))
    func patience() async throws {
        let down = ProviderFailure.retryable(status: 503, retryAfter: nil, detail: "")
        let broker = try TestBroker(script: .init(revoke: Array(repeating: down, count: 200)))
        try await broker.useCases.endSession.logOut(broker.signIn().token)
        let revocations = Revocations(broker.context)
        var hours = 0
        while try await broker.store.outboxCount() > 0, hours < 100 {
            _ = try await revocations.work()
            broker.clock.advance(.seconds(3600))
            hours += 1
        }
        #expect((72...75).contains(hours))
    }

    @Test(
        "One revocation hangs at the provider → the other revocation is done without delay (SEC-63)",
        .timeLimit(.minutes(1)))
    func hanging() async throws {
        let broker = try TestBroker(script: .init(hangs: ["at-1"]))
        for code in ["c1", "c2"] {
            let token = try await broker.signIn(code: code).token
            try await broker.useCases.endSession.logOut(token)
        }
        broker.provider.hanging.close()
        defer { broker.provider.hanging.open() }
        let work = Task { try await Revocations(broker.context).work() }
        try await eventually("all but one are revoked, and that one hangs") {
            try await broker.store.outboxCount() <= 1 && broker.provider.hanging.waiting >= 1
        }
        broker.provider.hanging.open()
        #expect(try await work.value == 2)
        #expect(try await broker.store.outboxCount() == 0)
    }
}
