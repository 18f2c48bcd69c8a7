import BrokerTestSupport
import BrokerVault
import Synchronization
import Testing

@testable import Broker

/// Logins that the app starts (flow B), codes that an app got from a native SDK, and arrivals (flow D).
@Suite(.timeLimit(.minutes(2))) struct AppLoginTests {
    private let verifier = Secret(String(repeating: "v", count: 43))
    private let loginToken = Secret(String(repeating: "l", count: 43))

    private func input(_ client: String, _ change: (inout ForwardCodeInput) -> Void) -> ForwardCodeInput {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: client)
        change(&input)
        return input
    }

    @Test(
        "A client forbids flow B (logins that the app starts) → the app's forward of a code gets `client_not_allowed`"
    )
    func notOptedIn() async throws {
        let broker = try TestBroker()
        let input = input("strict") {
            $0.code = Secret("c")
            $0.codeVerifier = verifier
        }
        #expect(await problem { try await broker.forward(input) }?.code == .clientNotAllowed)
        #expect(broker.provider.grants == 0)
    }

    @Test(
        "Stored records were sealed with another key ring → starts and forwards of flows A and B get 503, without a token call"
    )
    func foreignRing() async throws {
        let broker = try TestBroker()
        let login = try await broker.start()
        broker.vault.note(isTheStores: false)
        #expect(await problem { try await broker.start() }?.code == .storeUnavailable)
        let callback = broker.callback(login)
        #expect(await problem { try await broker.forward(callback, login.loginToken) }?.code == .storeUnavailable)
        let own = input("ios") {
            $0.code = Secret("c")
            $0.codeVerifier = verifier
            $0.loginToken = loginToken
        }
        #expect(await problem { try await broker.forward(own) }?.code == .storeUnavailable)
        #expect(broker.provider.grants == 0)
        broker.vault.note(isTheStores: true)
        _ = try await broker.forward(callback, login.loginToken)
        #expect(broker.provider.grants == 1)
    }

    @Test("A forward of a code has a missing or malformed verifier → refused at `/code_verifier`, without a token call")
    func noVerifier() async throws {
        let broker = try TestBroker()
        let bare = input("ios") { $0.code = Secret("c") }
        #expect(await problem { try await broker.forward(bare) }?.errors == [FieldFault("/code_verifier", .required)])
        let short = input("ios") {
            $0.code = Secret("c")
            $0.codeVerifier = Secret("short")
        }
        #expect(await problem { try await broker.forward(short) }?.errors == [FieldFault("/code_verifier", .malformed)])
        #expect(broker.provider.grants == 0)
    }

    @Test("A forward has both a code and a callback URL, or neither of them → refused")
    func oneSource() async throws {
        let broker = try TestBroker()
        let both = input("ios") {
            $0.code = Secret("c")
            $0.callbackURL = "\(TestBroker.redirect)?code=c"
        }
        #expect(await problem { try await broker.forward(both) }?.code == .invalidRequest)
        #expect(
            await problem { try await broker.forward(ForwardCodeInput()) }?.errors == [
                FieldFault("/callback_url", .required)
            ])
    }

    @Test(
        "A client lacks PKCE → a forward needs the callback URL and the app's state; a wrong or missing state → `login_required`"
    )
    func withoutPKCE() async throws {
        let broker = try TestBroker()
        let bare = input("nopkce") { $0.code = Secret("c") }
        #expect(
            await problem { try await broker.forward(bare) }?.errors == [
                FieldFault("/callback_url", .required), FieldFault("/state", .required),
            ])
        // Four pairs of a callback and the state that the app remembers: the states differ; the callback lacks the state; the
        // app was killed and forgot the state; both lack it.
        for (url, state) in [
            ("clever-x://oauth?code=c&state=s", "other"), ("clever-x://oauth?code=c", "s"),
            ("clever-x://oauth?code=c&state=s", nil), ("clever-x://oauth?code=c", nil),
        ] {
            let wrong = input("nopkce") {
                $0.callbackURL = url
                $0.state = state.map { Secret($0) }
            }
            let problem = await problem { try await broker.forward(wrong) }
            #expect(problem?.code == .loginRequired && problem?.login != nil)
        }
        #expect(broker.provider.grants == 0)
        let good = input("nopkce") {
            $0.callbackURL = "clever-x://oauth?code=c&state=s&iss=https%3A%2F%2Fas.example"
            $0.state = Secret("s")
            $0.loginToken = loginToken
        }
        let first = try await broker.forward(good)
        #expect(try await broker.forward(good).token.reveal() == first.token.reveal())
        #expect(broker.provider.grants == 1)
    }

    @Test(
        "A used code is forwarded with its verifier → the same session, without a token call; with another → `code_already_used`"
    )
    func bareCode() async throws {
        let broker = try TestBroker()
        let good = input("ios") {
            $0.code = Secret("c")
            $0.codeVerifier = verifier
        }
        let first = try await broker.forward(good)
        #expect(try await broker.forward(good).token.reveal() == first.token.reveal())
        let stranger = input("ios") {
            $0.code = Secret("c")
            $0.codeVerifier = Secret(String(repeating: "w", count: 43))
        }
        #expect(await problem { try await broker.forward(stranger) }?.code == .codeAlreadyUsed)
        #expect(broker.provider.grants == 1)
        #expect(broker.provider.script.withLock { $0.grants.first?.redirect } == .uri(TestBroker.redirect))
    }

    @Test("The app's own login token is not 43 to 128 base64url characters → refused at `/login_token`")
    func loginTokens() async throws {
        let broker = try TestBroker()
        for bad in [
            "", "short", String(repeating: "a", count: 129), String(repeating: "ä", count: 43),
            String(repeating: "=", count: 43),
        ] {
            let input = input("ios") {
                $0.code = Secret("c")
                $0.codeVerifier = verifier
                $0.loginToken = Secret(bad)
            }
            #expect(
                await problem { try await broker.forward(input) }?.errors == [FieldFault("/login_token", .malformed)])
        }
        #expect(broker.provider.grants == 0)
    }

    @Test("A forward names another client's redirect URI → `invalid_callback`")
    func redirects() async throws {
        let broker = try TestBroker()
        let wrong = input("ios") {
            $0.code = Secret("c")
            $0.codeVerifier = verifier
            $0.redirectURI = "com.example.strict:/cb"
        }
        #expect(await problem { try await broker.forward(wrong) }?.code == .invalidCallback)
    }

    @Test(
        "A native SDK's code is forwarded → login token and nonce are required, and the code is redeemed without a redirect URI"
    )
    func native() async throws {
        let broker = try TestBroker()
        let bare = input("native") { $0.code = Secret("c") }
        #expect(
            await problem { try await broker.forward(bare) }?.errors == [
                FieldFault("/login_token", .required), FieldFault("/nonce", .required),
            ])
        let good = input("native") {
            $0.code = Secret("c")
            $0.loginToken = loginToken
            $0.nonce = Secret("n")
        }
        _ = try await broker.forward(good)
        let script = broker.provider.script.withLock { $0 }
        #expect(script.grants.first?.redirect == .omitted && script.grants.first?.verifier == nil)
        guard case .rawOrSHA256? = script.contexts.first?.nonce else {
            Issue.record("the nonce of the id_token is not demanded")
            return
        }
    }

    @Test(
        "The provider starts a sign-in → the app gets a login; the provider's code is refused, even with the login token (SEC-15)"
    )
    func providerStarted() async throws {
        let broker = try TestBroker()
        for query in ["?code=portal&iss=https%3A%2F%2Fas.example", "?code=portal", ""] {
            var arrival = ForwardCodeInput()
            arrival.callbackURL = TestBroker.redirect + query
            let first = await problem { try await broker.forward(arrival) }
            #expect(first?.code == .loginRequired)
            let login = try #require(first?.login)
            arrival.loginToken = login.loginToken
            #expect(await problem { try await broker.forward(arrival) }?.code == .invalidCallback)
            _ = try await broker.forward(broker.callback(login, code: "real\(query.count)"), login.loginToken)
        }
        #expect(broker.provider.grants == 3)
        var foreign = ForwardCodeInput()
        foreign.callbackURL = "https://nobody.example/cb?code=c"
        #expect(await problem { try await broker.forward(foreign) }?.code == .invalidCallback)
    }
}
