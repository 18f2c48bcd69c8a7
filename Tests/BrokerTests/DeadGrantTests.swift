import BrokerTestSupport
import Testing

@testable import Broker

/// Refreshes that the provider refuses with another error code than `invalid_grant`.
///
/// The grant may be dead, or the provider may have a fault (guarantees 2 and 3).
@Suite(.timeLimit(.minutes(2))) struct DeadGrantTests {
    private func refused(_ error: OAuthError, after first: ProviderFailure? = nil) throws -> TestBroker {
        let refusals = Array(repeating: ProviderFailure.rejected(error), count: 60)
        return try TestBroker(script: .init(refresh: (first.map { [$0] } ?? []) + refusals))
    }

    /// Signs in, and lets the access token expire.
    private func expired(_ broker: TestBroker) async throws -> LiveSession {
        let session = try await broker.signIn(code: "c1")
        broker.clock.advance(.seconds(3601))
        return try await broker.useCases.resumeSession.resume(session.token)
    }

    private func refresh(_ broker: TestBroker, _ live: LiveSession) async -> BrokerProblem? {
        await problem { try await broker.useCases.refreshTokens.accessToken(for: live) }
    }

    /// Signs in, lets the token expire, and attempts a refresh every two minutes.
    ///
    /// Another user signs in one minute before the attempt number `grantBefore`.
    private func answers(
        _ broker: TestBroker, tries: Int, grantBefore: Int
    ) async throws -> [BrokerProblem?] {
        let live = try await expired(broker)
        var answers: [BrokerProblem?] = []
        for number in 0..<tries {
            broker.clock.advance(.seconds(60))
            if number == grantBefore { _ = try await broker.signIn(code: "c2") }
            broker.clock.advance(.seconds(60))
            answers.append(await refresh(broker, live))
        }
        return answers
    }

    @Test(
        "A refused refresh concerns the client or a passing fault, has status 403, or lacks `error` → it never ends the session",
        arguments: [
            OAuthError(status: 401, code: "invalid_client"), OAuthError(status: 400, code: "unauthorized_client"),
            OAuthError(status: 400, code: "temporarily_unavailable"), OAuthError(status: 400, code: "server_error"),
            OAuthError(status: 400, code: "slow_down"), OAuthError(status: 400, code: "use_dpop_nonce"),
            OAuthError(status: 400, code: "invalid_dpop_proof"), OAuthError(status: 403, code: "invalid_request"),
            OAuthError(status: 400, code: "invalid_request", isNamed: false),
        ])
    func never(_ error: OAuthError) async throws {
        let broker = try refused(error)
        let answers = try await answers(broker, tries: 8, grantBefore: 2)
        #expect(answers.allSatisfy { $0?.code == .providerUnavailable })
    }

    @Test(
        "A session's refreshes get `invalid_request` for over 5 min, while another session gets tokens → the first session ends"
    )
    func counted() async throws {
        let broker = try refused(OAuthError(status: 400, code: "invalid_request"))
        // In the first ten minutes, the endpoint refuses every refresh of every session. This may be a fault of the provider,
        // so the sessions stay.
        let answers = try await answers(broker, tries: 6, grantBefore: 5)
        #expect(answers.prefix(5).allSatisfy { $0?.code == .providerUnavailable })
        #expect(answers.last.flatMap { $0 }?.reason == .grantRevoked)
        // Each attempt makes one call. Only a refusal that the broker does not count is confirmed by a second call.
        #expect(broker.provider.refreshes == 6)
    }

    @Test(
        "A refresh was sent before the token endpoint recovered → its refusal does not count, however late the refusal arrives"
    )
    func recovery() async throws {
        let broker = try refused(OAuthError(status: 400, code: "invalid_request"))
        let live = try await expired(broker)
        for _ in 0..<4 {
            broker.clock.advance(.seconds(120))
            _ = await refresh(broker, live)
        }
        broker.clock.advance(.seconds(120))
        broker.provider.gate.close()
        async let late = refresh(broker, live)
        try await eventually("a call waits at the provider") { broker.provider.gate.waiting > 0 }
        broker.provider.gate.passNewcomers()
        _ = try await broker.signIn(code: "c2")
        broker.provider.gate.open()
        #expect(await late?.code == .providerUnavailable)
        // A refresh that was sent after the endpoint's recovery is refused. This refusal ends the session.
        broker.clock.advance(.seconds(120))
        let next = await refresh(broker, live)
        #expect(next?.reason == .grantRevoked)
    }

    @Test(
        "The provider grants one call after a session's first refusal, and then refuses all for ten minutes → the session stays"
    )
    func failsAgain() async throws {
        let broker = try refused(OAuthError(status: 401, code: ""))
        let answers = try await answers(broker, tries: 6, grantBefore: 1)
        #expect(answers.allSatisfy { $0?.code == .providerUnavailable })
    }

    @Test("Three refusals that count against the grant come within less than five minutes → the session stays")
    func tooFew() async throws {
        let broker = try refused(OAuthError(status: 400, code: "invalid_request"))
        let answers = try await answers(broker, tries: 3, grantBefore: 2)
        #expect(answers.allSatisfy { $0?.code == .providerUnavailable })
    }

    @Test("Two refusals that count come six minutes apart, and a grant comes between them → the session stays")
    func two() async throws {
        let broker = try refused(OAuthError(status: 400, code: "invalid_request"))
        let live = try await expired(broker)
        #expect(await refresh(broker, live)?.code == .providerUnavailable)
        broker.clock.advance(.seconds(180))
        _ = try await broker.signIn(code: "c2")
        broker.clock.advance(.seconds(180))
        #expect(await refresh(broker, live)?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == 2)
    }

    @Test(
        "A process saw a grant only before the session's first refusal, which another process got → the session stays")
    func earlierGrant() async throws {
        let clock = TestClock()
        let store = InMemoryStore(monotonic: clock.clock.monotonic)
        let first = try TestBroker(
            store: store,
            script: .init(
                refresh: Array(
                    repeating: .rejected(OAuthError(status: 400, code: "invalid_request")), count: 60)), clock: clock)
        let second = try TestBroker(store: store, vault: first.vault, provider: first.provider, clock: clock)
        // The second process gets a grant, and then only the first process calls the provider.
        let live = try await expired(second)
        for _ in 0..<4 {
            #expect(await refresh(first, live)?.code == .providerUnavailable)
            clock.advance(.seconds(120))
        }
        #expect(await refresh(second, live)?.code == .providerUnavailable)
        #expect(first.provider.refreshes == 5)
    }

    @Test("A grant is followed by refused imports, perhaps a stranger's → it counts for sessions, but not for imports")
    func refusedImports() {
        let (answers, provider, client) = (TokenAnswers(), ProviderName(unchecked: "as"), ClientName(unchecked: "ios"))
        func counts(forImport isImport: Bool) -> Bool {
            answers.hasGranted(provider, client, since: .seconds(5), forImport: isImport)
        }
        answers.granted(provider, client, begun: .seconds(10))
        #expect(counts(forImport: false) && counts(forImport: true))
        answers.refusedImport(provider, client, begun: .seconds(20))
        #expect(counts(forImport: false) && !counts(forImport: true))
        answers.refused(provider, client, begun: .seconds(30))
        #expect(!counts(forImport: false) && !counts(forImport: true))
    }

    @Test("A refusal counts → the broker calls the provider again after half a minute, and not before")
    func pause() async throws {
        let broker = try refused(OAuthError(status: 400, code: "invalid_request"))
        let live = try await expired(broker)
        #expect(await refresh(broker, live)?.code == .providerUnavailable)
        broker.clock.advance(.seconds(29))
        #expect(await refresh(broker, live)?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == 1)
        broker.clock.advance(.seconds(1))
        #expect(await refresh(broker, live)?.code == .providerUnavailable)
        #expect(broker.provider.refreshes == 2)
    }

    @Test(
        "A refresh's answer is lost, and then three counted refusals follow → the session ends with `refresh_lost` (SEC-56)"
    )
    func lost() async throws {
        let broker = try refused(OAuthError(status: 400, code: "invalid_request"), after: .lost(detail: ""))
        let answers = try await answers(broker, tries: 4, grantBefore: 3)
        #expect(answers.prefix(3).allSatisfy { $0?.code == .providerUnavailable })
        #expect(answers.last.flatMap { $0 }?.reason == .refreshLost)
    }

    @Test(
        "A refusal counts against the grant → its event names the error code; any other refusal → an event without a code"
    )
    func named() async throws {
        for (error, named) in [("invalid_request", "invalid_request"), ("invalid_client", nil), ("", "")] {
            let broker = try refused(OAuthError(status: 401, code: error))
            _ = try await answers(broker, tries: 1, grantBefore: 1)
            let counted = broker.events.all.compactMap { event -> [String?]? in
                if case .refreshFailed(_, _, _, _, let counted) = event { [counted] } else { nil }
            }
            #expect(counted == [[named]], "\(error)")
        }
    }
}
