import Broker
import BrokerTestSupport
import Sandbox
import Testing

@testable import BrokerProviders

@Suite("Refreshing tokens", .timeLimit(.minutes(2)))
struct RefreshTests {
    private func settings(_ base: String, _ change: (inout WireSettings) -> Void = { _ in }) -> ProviderSettings {
        var wire = WireSettings(identity: IdentitySettings(url: EndpointURL(base + "/me")))
        change(&wire)
        return ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oauth2,
            endpoints: EndpointSettings(
                authorization: EndpointURL(base + "/authorize"), token: EndpointURL(base + "/token")),
            clients: [ClientSettings(profile: Support.profile(), clientID: "cid-1", wire: wire)])
    }

    private func refresh(_ reply: RawServer.Reply, _ change: (inout WireSettings) -> Void = { _ in }) async throws
        -> Result<TokenSet, ProviderFailure>
    {
        let server = try RawServer { _ in reply }
        return try await Support.with(settings(server.base, change)) { client in
            let refresher = try #require(client as? any TokenRefreshing)
            do {
                return .success(try await refresher.refresh(Support.refresh(), by: Support.deadline))
            } catch let failure as ProviderFailure { return .failure(failure) }
        }
    }

    @Test("A refresh's deadline has passed before its call begins → no call (SEC-54)")
    func tooLate() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"at-2"}"#) }
        let clock = TestClock(WallTime(seconds: 1_800_000_000))
        clock.advance(.seconds(15))
        let failure = try await Support.with(settings(server.base), clock: clock.waiting) { client in
            let refresher = try #require(client as? any TokenRefreshing)
            return await Support.failure { try await refresher.refresh(Support.refresh(), by: .seconds(15)) }
        }
        guard case .notSent = failure else { return #expect(Bool(false)) }
        #expect(server.received.isEmpty)
    }

    @Test("A refresh's deadline comes before the usual time limit of a call → the call ends at the deadline (SEC-54)")
    func endsInTime() async throws {
        let server = try RawServer { _ in .hang }
        try await Support.with(settings(server.base)) { client in
            let refresher = try #require(client as? any TokenRefreshing)
            for _ in 0..<20 {
                let begun = ContinuousClock.now
                let failure = await Support.failure {
                    try await refresher.refresh(Support.refresh(), by: Support.clock.monotonic() + .seconds(1))
                }
                #expect(ContinuousClock.now - begun < .seconds(10))
                // If one second passes before the connection exists, the request is not sent, and the failure must be
                // `notSent`.
                if case .notSent = failure {
                    #expect(server.received.isEmpty)
                    continue
                }
                guard case .lost = failure else { return #expect(Bool(false)) }
                return
            }
            Issue.record("none of twenty calls was sent before its deadline")
        }
    }

    @Test(
        "A refresh gets an OAuth error with the code invalid_grant → a dead grant; any other answer → no dead grant (SEC-58)"
    )
    func deadGrant() async throws {
        func isDead(_ result: Result<TokenSet, ProviderFailure>) -> Bool {
            if case .failure(.rejected(let error)) = result { error.isInvalidGrant } else { false }
        }
        #expect(isDead(try await refresh(.json(#"{"error":"invalid_grant"}"#, status: 400))))
        for reply in [
            RawServer.Reply.http(400, [], []), .http(400, [], Array("<html>blocked</html>".utf8)), .http(401, [], []),
            .json(#"{"error":"invalid_client"}"#, status: 401), .json(#"{"error":"invalid_grant"}"#, status: 500),
            .json(#"{"message":"invalid_grant"}"#, status: 403), .close, .http(302, [("Location", "/")], []),
        ] {
            #expect(!isDead(try await refresh(reply)))
        }
    }

    @Test(
        "A refresh's answer has a refresh token or scope → the result has them, too; lacks a value → nil in the result (SEC-57)"
    )
    func parts() async throws {
        let kept = try await refresh(.json(#"{"access_token":"at-2"}"#)).get()
        #expect(kept.refreshToken == nil && kept.scope == nil && kept.expiresAt == nil)
        let rotated = try await refresh(.json(#"{"access_token":"at-2","refresh_token":"rt-2","scope":"a"}"#)).get()
        #expect(rotated.refreshToken?.reveal() == "rt-2" && rotated.scope == ["a"])
    }

    @Test("Refreshes are switched off for a client → no refresh is sent, and a sign-in's refresh token is dropped")
    func none() async throws {
        let server = try RawServer { _ in .json(#"{"access_token":"at-1","refresh_token":"rt-1"}"#) }
        try await Support.with(settings(server.base) { $0.refresh = .none }) { client in
            let refresher = try #require(client as? any TokenRefreshing)
            guard
                case .notSent = await Support.failure({
                    try await refresher.refresh(Support.refresh(), by: Support.deadline)
                })
            else {
                return #expect(Bool(false))
            }
            let tokens = try await #require(client as? any CodeExchanging).redeem(Support.grant(), by: Support.deadline)
            #expect(tokens.refreshToken == nil)
        }
    }

    @Test(
        "A refreshed id_token is good → the result is its subject; otherwise → foreign, unverifiable or absent (SEC-59)",
        arguments: [
            "", "refresh-invalid-sub", "refresh-invalid-issuer", "off", "foreign-key", "idtoken-sig-none",
            "invalid-aud",
            "nonce-invalid", "expired",
        ])
    func subject(_ fault: String) async throws {
        try await withSandbox { sandbox in
            sandbox.control.set(
                settings: ["id_token_on_refresh": .bool(fault != "off"), "refresh_token": "always"], of: "oidc")
            let settings = ProviderSettings(
                name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: sandbox.baseURL + "/oidc",
                clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
            try await Support.with(settings) { client in
                let tokens = try await Flow(provider: try #require(client as? any CodeExchanging)).run().tokens
                if !fault.isEmpty, fault != "off" {
                    try sandbox.control.place(Fault(provider: "oidc", endpoint: "refresh", fault))
                }
                let refresher = try #require(client as? any TokenRefreshing)
                let fresh = try await refresher.refresh(
                    Support.refresh(try #require(tokens.refreshToken).reveal()), by: Support.deadline)
                let subject = try await refresher.subjectOfRefreshed(
                    fresh, before: tokens, client: Support.ios)
                // The at_hash does not fit the other access token, but the id_token still identifies its user.
                var other = fresh
                other.accessToken = Secret("another")
                let hashed = try await refresher.subjectOfRefreshed(other, before: tokens, client: Support.ios)
                switch (fault, hashed) {
                case ("", .unverifiable(_, let subject)): #expect(subject == "user-ana")
                case ("refresh-invalid-sub", .unverifiable(_, let subject)):
                    #expect(subject != nil && subject != "user-ana")
                case ("expired", .unverifiable(_, let subject)): #expect(subject == "user-ana")
                case ("foreign-key", .unverifiable(_, let subject)),
                    ("idtoken-sig-none", .unverifiable(_, let subject)):
                    #expect(subject == nil)
                case ("", _), ("refresh-invalid-sub", _), ("expired", _): Issue.record("\(fault): \(hashed)")
                default: break
                }
                switch fault {
                case "": #expect(subject == .subject("user-ana"))
                case "off": #expect(subject == .absent)
                case "refresh-invalid-issuer", "invalid-aud", "nonce-invalid":
                    guard case .foreign = subject else { return #expect(Bool(false), "\(fault): \(subject)") }
                case "foreign-key", "idtoken-sig-none", "expired":
                    guard case .unverifiable = subject else { return #expect(Bool(false), "\(fault): \(subject)") }
                default: #expect(subject != .subject("user-ana") && subject != .absent)
                }
            }
        }
    }
}
