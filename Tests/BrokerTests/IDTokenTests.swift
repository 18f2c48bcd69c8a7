import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Sessions that are made from an id_token, which the app got from a provider's native SDK.
@Suite(.timeLimit(.minutes(2))) struct IDTokenTests {
    private let loginToken = Secret(String(repeating: "l", count: 43))

    private func input(
        _ token: String = "head.claims.signature", client: String = "native",
        _ change: (inout ForwardCodeInput) -> Void = { _ in }
    ) -> ForwardCodeInput {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: client)
        input.idToken = Secret(token)
        input.nonce = Secret("n")
        input.loginToken = loginToken
        change(&input)
        return input
    }

    private func handed(_ broker: TestBroker) -> Int { broker.provider.script.withLock { $0.handed.count } }

    // MARK: Refusals

    @Test(
        "An id_token for a client without `native_code`, or for a provider that cannot verify it → `client_not_allowed`"
    )
    func notOptedIn() async throws {
        let broker = try TestBroker()
        for client in ["ios", "strict", "nopkce"] {
            #expect(await problem { try await broker.forward(input(client: client)) }?.code == .clientNotAllowed)
        }
        broker.provider.script.withLock { $0.takesIDTokens = false }
        #expect(await problem { try await broker.forward(input()) }?.code == .clientNotAllowed)
        #expect(
            await problem { try await broker.forward(input { $0.provider = ProviderName(unchecked: "x") }) }?.code
                == .providerNotFound)
        #expect(handed(broker) == 0)
    }

    @Test(
        "A forward of an id_token lacks the nonce, or has members of other flows → refused before the signature is verified"
    )
    func members() async throws {
        let broker = try TestBroker()
        let bare = input { $0.nonce = nil }
        #expect(await problem { try await broker.forward(bare) }?.errors == [FieldFault("/nonce", .required)])
        let mixed = input {
            $0.redirectURI = TestBroker.redirect
            $0.codeVerifier = Secret(String(repeating: "v", count: 43))
            $0.state = Secret("s")
            $0.scope = ["openid"]
        }
        #expect(
            await problem { try await broker.forward(mixed) }?.errors
                == ["/redirect_uri", "/code_verifier", "/state", "/scope"].map { FieldFault($0, .notAllowed) })
        let short = input { $0.loginToken = Secret("short") }
        #expect(
            await problem { try await broker.forward(short) }?.errors == [FieldFault("/login_token", .malformed)])
        let both = input { $0.code = Secret("c") }
        #expect(await problem { try await broker.forward(both) }?.errors == [FieldFault("/id_token", .conflict)])
        #expect(handed(broker) == 0)
    }

    @Test(
        "An id_token fails its verification → `code_rejected`; no row is written, so the token can be forwarded again")
    func doesNotVerify() async throws {
        let broker = try TestBroker(script: .init(idTokens: [.identityRejected(detail: "aud is not this client")]))
        let refused = await problem { try await broker.forward(input()) }
        #expect(refused?.code == .codeRejected && refused?.privateDetail == "aud is not this client")
        let told = broker.events.all.filter { if case .exchangeFailed = $0 { true } else { false } }
        #expect(told.count == 1)
        _ = try await broker.forward(input())
        #expect(handed(broker) == 2)
    }

    @Test(
        "The provider's keys cannot be fetched for an id_token → 503 or 502; later, the same id_token is accepted"
    )
    func noKeys() async throws {
        let broker = try TestBroker(
            script: .init(idTokens: [
                .notSent(detail: "down"), .lost(detail: "silent"), .retryable(status: 503, retryAfter: nil, detail: ""),
                .unusable(detail: "no key set"),
            ]))
        for code in [ProblemCode.providerUnavailable, .providerUnavailable, .providerUnavailable, .providerError] {
            #expect(await problem { try await broker.forward(input()) }?.code == code)
        }
        _ = try await broker.forward(input())
    }

    @Test("The clock is in doubt → an id_token gets 503 before it is verified, and is accepted ten minutes later")
    func doubtedClock() async throws {
        let broker = try TestBroker()
        #expect(broker.context.watch.allows(.concludeLapse, broker.context.clock))
        broker.clock.jump(.seconds(-7200))
        #expect(await problem { try await broker.forward(input()) }?.code == .storeUnavailable)
        #expect(handed(broker) == 0)
        broker.clock.jump(.seconds(7200))
        #expect(!broker.context.watch.allows(.concludeLapse, broker.context.clock))
        broker.clock.advance(.seconds(601))
        _ = try await broker.forward(input())
    }

    @Test(
        "An id_token fails its verification → the address is charged for each attempt, and for a fetch of newer provider keys"
    )
    func charged() async throws {
        let broker = try TestBroker(
            script: .init(idTokens: Array(repeating: .identityRejected(detail: "forged"), count: 10)))
        let ledger = ChargeLedger(
            ChargeLimits(loginsPerMinute: 3, wrongTokensPerMinute: 1), monotonic: broker.clock.clock.monotonic)
        let charge = Charge(IPAddress(high: 0, low: 0xFFFF_0A00_0001), in: ledger)
        func forward(_ token: String) async -> ProblemCode? {
            await problem { try await broker.forward(input(token) { $0.charge = charge }) }?.code
        }
        #expect(await forward("new-key.a.b") == .codeRejected)
        #expect(broker.provider.script.withLock { $0.keyFetches } == 1)
        #expect(await forward("new-key.a.b") == .rateLimited)
        #expect(broker.provider.script.withLock { $0.keyFetches } == 1)
        #expect(await forward("same.a.b") == .codeRejected)
        // The address may begin three exchanges, and three checks have used them up. So another id_token is refused before its
        // check.
        #expect(await forward("same.a.b") == .rateLimited)
        #expect(handed(broker) == 3)
        #expect(ledger.count(.exchange, of: IPAddress(high: 0, low: 0xFFFF_0A00_0001)) == 0)
    }

    // MARK: Used once

    @Test(
        "An id_token is forwarded again → its starter gets the session for ten minutes; other callers get `code_already_used`"
    )
    func once() async throws {
        let broker = try TestBroker()
        let first = try await broker.forward(input())
        #expect(try await broker.forward(input()).token.reveal() == first.token.reveal())
        for other in [
            input { $0.loginToken = Secret(String(repeating: "m", count: 43)) }, input { $0.loginToken = nil },
            // The token has the same signed part, but another signature. Anyone who knows one ECDSA signature can compute a
            // second one.
            input("head.claims.other") { $0.loginToken = nil },
        ] {
            #expect(await problem { try await broker.forward(other) }?.code == .codeAlreadyUsed)
        }
        #expect(handed(broker) == 1)
        broker.clock.advance(.seconds(601))
        #expect(await problem { try await broker.forward(input()) }?.code == .codeAlreadyUsed)
        #expect(handed(broker) == 1)
    }

    @Test("An id_token is forwarded without a login token → a second forward cannot fetch its session")
    func withoutLoginToken() async throws {
        let broker = try TestBroker()
        _ = try await broker.forward(input { $0.loginToken = nil })
        #expect(
            await problem { try await broker.forward(input { $0.loginToken = nil }) }?.code == .codeAlreadyUsed)
    }

    @Test("Ten forwards of one id_token at the same time → all get the same session")
    func atOnce() async throws {
        let broker = try TestBroker()
        let tokens = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<10 { group.addTask { try await broker.forward(input()).token.reveal() } }
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(tokens.count == 1)
    }

    // MARK: The session

    @Test(
        "A session is made from an id_token → it has no tokens, but the configured lifetime; nothing is refreshed or revoked"
    )
    func withoutTokens() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.forward(input())
        let view = signedIn.session
        #expect(view.subject == "user-1" && view.scope.isEmpty)
        #expect(view.tokensExpireAt == nil && !view.refreshable)
        #expect(view.expiresAt == view.createdAt.advanced(by: .seconds(90 * 86_400)))
        #expect(view.idleExpiresAt == view.createdAt.advanced(by: .seconds(30 * 86_400)))
        let live = try await broker.useCases.resumeSession.use(signedIn.token)
        #expect(!live.hasTokens)
        let refresh = broker.useCases.refreshTokens
        #expect(await problem { try await refresh.refreshNow(live) }?.code == .notRefreshable)
        #expect(await problem { try await refresh.accessToken(for: live) }?.code == .notRefreshable)
        // The call before leaves the session alive.
        _ = try await broker.useCases.resumeSession.resume(signedIn.token)
        try await broker.useCases.endSession.logOut(signedIn.token)
        #expect(try await broker.store.outboxCount() == 0)
        #expect(broker.provider.script.withLock { $0.revoked + $0.sessionsEnded + $0.refreshes.count } == 0)
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(signedIn.token) }?.reason == .loggedOut)
    }

    @Test(
        "A client may hand out access tokens, but a session is from an id_token → this session gets `client_not_allowed`"
    )
    func handOut() async throws {
        var client = ClientProfile(
            name: ClientName(unchecked: "native"), login: .app,
            redirectURIs: [RedirectURI("com.example.native:/cb")].compactMap { $0 }, nativeCode: true)
        client.handsOutAccessToken = true
        let broker = try TestBroker(clients: [client])
        let signedIn = try await broker.forward(input())
        #expect(
            await problem { try await broker.useCases.handOut(signedIn.token) }?.code == .clientNotAllowed)
    }

    @Test(
        "A user with a session from an id_token logs out of another session → the other session's tokens are revoked (SEC-63)",
        arguments: [RevocationReach.user, .signIn])
    func revocation(_ reach: RevocationReach) async throws {
        let broker = try TestBroker(script: .init(sid: reach == .user ? nil : "sid-1"), reach: reach)
        let coded = try await broker.signIn()
        _ = try await broker.forward(input())
        try await broker.useCases.endSession.logOut(coded.token)
        #expect(try await Revocations(broker.context).work() == 1)
        // The session from the native sign-in depends on the provider's own session. So the provider's session has to stay.
        #expect(broker.provider.script.withLock { [$0.revoked, $0.sessionsEnded] } == [1, 0])
    }

    @Test("The provider logs a user out → the user's session from an id_token ends, too")
    func backchannel() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.forward(input())
        try await broker.useCases.backchannelLogout.receive(
            provider: ProviderName(unchecked: "as"), token: Secret("good"))
        #expect(
            await problem { try await broker.useCases.resumeSession.resume(signedIn.token) }?.reason == .providerLogout)
    }
}
