import Broker
import BrokerTestSupport
import Sandbox
import Synchronization
import Testing

@testable import BrokerProviders

@Suite("Providers of kind clover", .timeLimit(.minutes(2)))
struct CloverTests {
    private func settings(
        web: String, api: String, clientID: String = "AFAKE0001", authentication: ClientAuthentication = .none,
        site: String? = "https://app.example.com", redirect: String = "https://app.example.com/clover"
    ) -> ProviderSettings {
        ProviderSettings(
            name: ProviderName(unchecked: "clover"),
            service: .clover(CloverSettings(environment: .sandbox, siteURL: site)),
            endpoints: EndpointSettings(authorization: EndpointURL(web + "/oauth/v2/authorize"), api: EndpointURL(api)),
            clients: [
                ClientSettings(
                    profile: Support.profile(redirects: [redirect], nonce: false) { $0.importTokens = true },
                    clientID: clientID, authentication: authentication)
            ])
    }

    private func sandboxed(
        _ base: String, _ authentication: ClientAuthentication = .none, clientID: String = "AFAKE0001"
    ) -> ProviderSettings {
        settings(
            web: base + "/clover-web", api: base + "/clover-api", clientID: clientID, authentication: authentication)
    }

    private func flow(_ client: any ProviderClient) throws -> Flow {
        var flow = Flow(provider: try #require(client as? any CodeExchanging))
        flow.nonce = nil
        return flow
    }

    @Test(
        "Each of Clover's environments → has two hosts, which no other environment has",
        arguments: [
            (CloverSettings.Environment.sandbox, "https://sandbox.dev.clover.com", "https://apisandbox.dev.clover.com"),
            (.us, "https://www.clover.com", "https://api.clover.com"),
            (.eu, "https://www.eu.clover.com", "https://api.eu.clover.com"),
            (.la, "https://www.la.clover.com", "https://api.la.clover.com"),
        ])
    func hosts(_ environment: CloverSettings.Environment, _ web: String, _ api: String) throws {
        let plain = ProviderSettings(
            name: ProviderName(unchecked: "clover"), service: .clover(CloverSettings(environment: environment)),
            clients: [ClientSettings(profile: Support.profile(), clientID: "A")])
        let endpoints = try CloverWire.settings(plain, CloverSettings(environment: environment)).endpoints
        #expect(endpoints.authorization?.text == web + "/oauth/v2/authorize")
        #expect(endpoints.token?.text == api + "/oauth/v2/token")
        #expect(endpoints.refresh?.text == api + "/oauth/v2/refresh")
        #expect(endpoints.recovery?.text == api + "/oauth/v2/recovery")
        #expect(endpoints.migration?.text == api + "/oauth/token/migrate_v2")
    }

    private func request(_ token: String, merchant: String?, refresh: String? = nil) -> ImportRequest {
        ImportRequest(
            client: Support.ios,
            tokens: ImportedTokens(
                accessToken: Secret(token), refreshToken: refresh.map { Secret($0) }, merchantID: merchant),
            idempotencyKey: String(repeating: "k", count: 43))
    }

    @Test(
        "Clover: an old-style token is invented, or another app's or merchant's → its migration fails, and no code is redeemed"
    )
    func migrationRefused() async throws {
        try await withSandbox { sandbox in
            try await Support.with(sandboxed(sandbox.baseURL)) { client in
                let importer = try #require(client as? any TokenImporting)
                let merchant = "MFAKE00000001"
                sandbox.control.set(user: "ana", ["merchant_id": .string(merchant)])
                for (token, named) in [
                    ("v1-invented", merchant), (sandbox.control.legacyToken(clientID: "AOTHER001"), merchant),
                    (sandbox.control.legacyToken(clientID: "AFAKE0001"), "MOTHER0000001"),
                ] {
                    let failure = await Support.failure {
                        try await importer.takeOver(request(token, merchant: named), by: Support.deadline)
                    }
                    guard case .rejected = failure else {
                        Issue.record("\(token): \(String(describing: failure))")
                        continue
                    }
                }
                #expect(sandbox.control.count("clover", "token") == 0)
                for (body, status) in [(#"{"authorization_code":""}"#, 200), ("{}", 200), ("<html>", 403)] {
                    try sandbox.control.place(
                        Fault(
                            provider: "clover", endpoint: "migrate", "status", times: 1, status: status, body: body))
                    let failure = await Support.failure {
                        try await importer.takeOver(
                            request(sandbox.control.legacyToken(clientID: "AFAKE0001"), merchant: merchant),
                            by: Support.deadline)
                    }
                    // With a 2xx, the token may be used up. Another status may come from a firewall.
                    switch failure {
                    case .lost where status == 200: break
                    case .retryable(403, _, _) where status == 403: break
                    default: Issue.record("\(body): \(String(describing: failure))")
                    }
                }
                try sandbox.control.place(Fault(provider: "clover", endpoint: "migrate", "drop-after", times: 1))
                let lost = await Support.failure {
                    try await importer.takeOver(
                        request(sandbox.control.legacyToken(clientID: "AFAKE0001"), merchant: merchant),
                        by: Support.deadline)
                }
                guard case .lost = lost else {
                    Issue.record("\(String(describing: lost))")
                    return
                }
                #expect(sandbox.control.count("clover", "token") == 0)
            }
        }
    }

    @Test(
        "Clover's answer to an import is unusable → lost after a 2xx, and the call may be repeated after another status"
    )
    func importUnusable() async throws {
        try await withSandbox { sandbox in
            try await Support.with(sandboxed(sandbox.baseURL)) { client in
                let importer = try #require(client as? any TokenImporting)
                #expect(importer.spendsImportedTokens)
                for (body, status) in [("{}", 200), ("<html>", 200), ("<html>", 403), ("<html>", 302)] {
                    try sandbox.control.place(
                        Fault(
                            provider: "clover", endpoint: "refresh", "status", times: 1, status: status, body: body))
                    let failure = await Support.failure {
                        try await importer.takeOver(
                            request("at", merchant: "MFAKE00000001", refresh: "rt"), by: Support.deadline)
                    }
                    switch failure {
                    case .lost where status == 200: break
                    case .retryable(status, _, _) where status != 200: break
                    default: Issue.record("\(status) \(body): \(String(describing: failure))")
                    }
                }
            }
        }
    }

    @Test(
        "Clover: an old-style token → exchanged for a token pair, with the secret if the client has one, otherwise with PKCE",
        arguments: [ClientAuthentication.none, .clientSecretPost(Secret("web-secret"))])
    func migration(_ authentication: ClientAuthentication) async throws {
        try await withSandbox { sandbox in
            var id = "AFAKE0001"
            if case .clientSecretPost = authentication { id = "web" }
            try await Support.with(sandboxed(sandbox.baseURL, authentication, clientID: id)) { client in
                let importer = try #require(client as? any TokenImporting)
                let merchant = "MFAKE00000001"
                sandbox.control.set(user: "ana", ["merchant_id": .string(merchant)])
                #expect(importer.importFault(request("v1", merchant: merchant).tokens, client: Support.ios) == nil)
                let legacy = sandbox.control.legacyToken(clientID: id)
                let tokens = try await importer.takeOver(request(legacy, merchant: merchant), by: Support.deadline)
                #expect(tokens.accessToken.reveal() != legacy && tokens.refreshToken != nil)
                #expect(tokens.expiresAt != nil && tokens.refreshExpiresAt != nil)
                let who = try await importer.identifyImported(
                    tokens, of: request(legacy, merchant: merchant).tokens,
                    Support.context(callback: [("merchant_id", merchant)]), by: Support.deadline)
                #expect(who.subject == merchant)
                let asked = try #require(sandbox.control.requests(provider: "clover", endpoint: "migrate").first)
                let redeemed = try #require(sandbox.control.requests(provider: "clover", endpoint: "token").first)
                #expect(asked.path == "/clover-api/oauth/token/migrate_v2")
                #expect(
                    asked.bodyText.contains(#""merchant_uuid":"MFAKE00000001","app_uuid":"\#(id)","auth_token":"v1-"#))
                #expect(asked.bodyText.contains("code_challenge") == (id == "AFAKE0001"))
                #expect(redeemed.bodyText.contains("code_verifier") == (id == "AFAKE0001"))
                #expect(redeemed.bodyText.contains("client_secret") == (id == "web"))
                #expect(!redeemed.bodyText.contains(legacy))
            }
        }
    }

    @Test(
        "A Clover client's redirect URI is not below the configured Site URL → the broker does not start",
        arguments: [
            "https://evil.example.com/clover", "http://127.0.0.1/clover", "https://app.example.com:8443/clover",
            "https://app.example.com/shopping", "com.example.app:/clover",
        ])
    func siteURL(_ redirect: String) {
        let settings = settings(
            web: "https://w.example", api: "https://a.example", site: "https://app.example.com/shop", redirect: redirect
        )
        #expect(throws: CatalogueFailure.self) {
            try CloverWire.settings(settings, CloverSettings(environment: .us, siteURL: "https://app.example.com/shop"))
        }
        #expect(CloverWire.lies(RedirectURI(redirect)!, under: "https://app.example.com/shop") == false)
    }

    @Test("A Clover client without a secret redeems a code → the token request has only client_id, code and verifier")
    func lowTrust() async throws {
        let server = try RawServer { _ in
            .json(
                #"{"access_token":"at-1","access_token_expiration":1900000000,"refresh_token":"rt-1","refresh_token_expiration":1931536000}"#
            )
        }
        let clock = TestClock(WallTime(seconds: 1_899_990_000))
        try await Support.with(settings(web: server.base, api: server.base), clock: clock.waiting) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            let tokens = try await exchanger.redeem(
                Support.grant("c0de-1", redirect: .uri("https://app.example.com/clover")), by: Support.deadline)
            #expect(tokens.expiresAt == WallTime(seconds: 1_900_000_000))
            #expect(tokens.refreshExpiresAt == WallTime(seconds: 1_931_536_000))
        }
        let request = try #require(server.received.first)
        #expect(request.target == "/oauth/v2/token")
        #expect(request.header("Authorization") == nil && request.header("Content-Type") == "application/json")
        #expect(
            request.body
                == #"{"code":"c0de-1","code_verifier":"\#(String(repeating: "V", count: 43))","client_id":"AFAKE0001"}"#
        )
    }

    @Test("A Clover client with a secret redeems a code → the secret is in the body, without verifier and challenge")
    func highTrust() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"at-1"}"#) }
        let settings = settings(
            web: server.base, api: server.base, authentication: .clientSecretBasic(Secret("s3cret")))
        try await Support.with(settings) { client in
            let url = try await flow(client).start().url.reveal()
            #expect(!url.contains("code_challenge") && !url.contains("scope="))
            _ = try await #require(client as? any CodeExchanging).redeem(Support.grant(), by: Support.deadline)
        }
        #expect(server.received.first?.body == #"{"code":"c0de-1","client_id":"AFAKE0001","client_secret":"s3cret"}"#)
    }

    @Test("A Clover client with a secret refreshes → the body has only the client id and the refresh token")
    func refreshWire() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"at-2","refresh_token":"rt-2"}"#) }
        let settings = settings(web: server.base, api: server.base, authentication: .clientSecretPost(Secret("s3cret")))
        try await Support.with(settings) { client in
            let fresh = try await #require(client as? any TokenRefreshing).refresh(
                Support.refresh("rt-1"), by: Support.deadline)
            #expect(fresh.refreshToken?.reveal() == "rt-2")
        }
        #expect(server.received.map(\.target) == ["/oauth/v2/refresh"])
        #expect(server.received.first?.body == #"{"client_id":"AFAKE0001","refresh_token":"rt-1"}"#)
    }

    @Test(
        "The answer to a Clover refresh is lost → a client with a secret recovers the new tokens, a client without secret cannot"
    )
    func recovery() async throws {
        try await withSandbox { sandbox in
            for (authentication, clientID, recovers) in [
                (ClientAuthentication.clientSecretPost(Secret("web-secret")), "web", true), (.none, "AFAKE0001", false),
            ] {
                try await Support.with(sandboxed(sandbox.baseURL, authentication, clientID: clientID)) { client in
                    let tokens = try await flow(client).run().tokens
                    let refresher = try #require(client as? any TokenRefreshing)
                    let old = try #require(tokens.refreshToken).reveal()
                    try sandbox.control.place(Fault(provider: "clover", endpoint: "refresh", "drop-after", times: 1))
                    guard
                        case .lost = await Support.failure({
                            try await refresher.refresh(Support.refresh(old), by: Support.deadline)
                        })
                    else {
                        return #expect(Bool(false))
                    }
                    let before = sandbox.control.count("clover", "recovery")
                    if recovers {
                        let fresh = try await refresher.refresh(
                            Support.refresh(old, recovering: true), by: Support.deadline)
                        #expect(fresh.refreshToken?.reveal() != old)
                        #expect(sandbox.control.count("clover", "recovery") == before + 1)
                    } else {
                        let failure = await Support.failure {
                            try await refresher.refresh(Support.refresh(old, recovering: true), by: Support.deadline)
                        }
                        guard case .rejected(let error) = failure else { return #expect(Bool(false)) }
                        #expect(error.isInvalidGrant && error.recoveryOffered)
                        #expect(sandbox.control.count("clover", "recovery") == before)
                    }
                }
            }
        }
    }

    @Test("A Clover refresh gets a proxy's HTML page with status 401 → not a dead grant, so no user is logged out")
    func proxyPage() async throws {
        let server = try RawServer { _ in .http(401, [("Content-Type", "text/html")], Array("<html></html>".utf8)) }
        try await Support.with(settings(web: server.base, api: server.base)) { client in
            let refresher = try #require(client as? any TokenRefreshing)
            guard
                case .unusable = await Support.failure({
                    try await refresher.refresh(Support.refresh(), by: Support.deadline)
                })
            else {
                return #expect(Bool(false))
            }
        }
    }

    @Test(
        "A Clover token can read the merchant → the merchant is the subject, the employee unverified, and no PIN stored (SEC-16)"
    )
    func identity() async throws {
        try await withSandbox { sandbox in
            try await Support.with(sandboxed(sandbox.baseURL)) { client in
                let identity = try await flow(client).run().identity
                let merchant = sandbox.control.requests(provider: "clover", endpoint: "merchant").first?.path
                #expect(merchant == "/clover-api/v3/merchants/" + identity.subject)
                #expect(identity.claims.map(\.name) == ["name"])
                #expect(identity.unverified.map(\.name) == ["employee_id"])
            }
        }
    }

    @Test(
        "A Clover callback names a merchant that the token cannot read, or the API returns another merchant → no sign-in",
        arguments: ["wrong-merchant-callback", "userinfo-invalid-sub"])
    func wrongMerchant(_ fault: String) async throws {
        try await withSandbox { sandbox in
            try sandbox.control.place(
                fault.hasPrefix("wrong")
                    ? Fault(provider: "clover", fault, value: "MOTHER0000001")
                    : Fault(provider: "clover", endpoint: "merchant", fault))
            try await Support.with(sandboxed(sandbox.baseURL)) { client in
                let flow = try flow(client)
                let failure = await Support.failure { try await flow.run() }
                guard case .identityRejected = failure else {
                    return #expect(Bool(false), "\(String(describing: failure))")
                }
            }
        }
    }

    @Test(
        "A Clover callback with a malformed merchant_id → the merchant_id never becomes part of an API path",
        arguments: ["", "..", "a/b", "a%2Fb", "M?x=1", "M#", "ü", String(repeating: "M", count: 33)])
    func hostileMerchant(_ id: String) async throws {
        let server = try RawServer { _ in .json("{}") }
        try await Support.with(settings(web: server.base, api: server.base)) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            let failure = await Support.failure {
                try await exchanger.identify(
                    TokenSet(accessToken: Secret("at-1")), Support.context(callback: [("merchant_id", id)]),
                    by: Support.deadline)
            }
            guard case .identityRejected = failure else { return #expect(Bool(false)) }
            #expect(server.received.isEmpty)
        }
    }

    @Test("A Clover callback with another app's client_id → refused before an API call")
    func otherApp() async throws {
        let server = try RawServer { _ in .json(#"{"id":"M1"}"#) }
        try await Support.with(settings(web: server.base, api: server.base)) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            let failure = await Support.failure {
                try await exchanger.identify(
                    TokenSet(accessToken: Secret("at-1")),
                    Support.context(callback: [("merchant_id", "M1"), ("client_id", "AOTHER")]), by: Support.deadline)
            }
            guard case .identityRejected = failure else { return #expect(Bool(false)) }
            #expect(server.received.isEmpty)
        }
    }

    @Test("A code is redeemed at Clover a second time → the broker reports Clover's rejection")
    func usedCode() async throws {
        try await withSandbox { sandbox in
            try await Support.with(sandboxed(sandbox.baseURL)) { client in
                let flow = try flow(client)
                let callback = try await flow.callback()
                _ = try await flow.redeem(callback)
                guard case .rejected = await Support.failure({ try await flow.redeem(callback) }) else {
                    return #expect(Bool(false))
                }
            }
        }
    }
}
