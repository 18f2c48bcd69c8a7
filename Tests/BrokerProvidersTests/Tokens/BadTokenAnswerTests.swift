import Broker
import Sandbox
import Synchronization
import Testing

@testable import BrokerProviders

private final class Counter: Sendable {
    private let count = Mutex(0)
    var value: Int { count.withLock { $0 } }
    func add() { count.withLock { $0 += 1 } }
}

@Suite("Bad token answers from a whole provider")
struct BadTokenAnswerTests {
    private func settings(_ base: String, total: Duration = .seconds(10)) -> ProviderSettings {
        ProviderSettings(
            name: ProviderName(unchecked: "oidc"), service: .oidc, issuer: base + "/oidc",
            limits: CallLimits(total: total),
            clients: [ClientSettings(profile: Support.profile(), clientID: "mobile-app")])
    }

    private func redeem(_ fault: Fault) async throws -> Result<TokenSet, ProviderFailure> {
        try await withSandbox { sandbox in
            var fault = fault
            if fault.name == "redirect" { fault.location = sandbox.baseURL + "/api/steal" }
            let result = try await Support.with(settings(sandbox.baseURL, total: .seconds(2))) { client in
                let flow = Flow(provider: try #require(client as? any CodeExchanging))
                let callback = try await flow.callback()
                try sandbox.control.place(fault)
                do { return Result<TokenSet, ProviderFailure>.success(try await flow.redeem(callback)) } catch let
                    failure as ProviderFailure
                {
                    return .failure(failure)
                }
            }
            // One call, whatever became of it, and nothing at a redirect's target (SEC-17).
            #expect(sandbox.control.count("oidc", "token") == 1)
            #expect(sandbox.control.requests(provider: "api").isEmpty)
            return result
        }
    }

    @Test(
        "Each gives its own failure: later, spent or lost (SEC-20, SEC-122)",
        arguments: [
            ("status", "retryable"), ("rate-limited", "retryable"), ("hang", "lost"), ("drop-before", "lost"),
            ("drop-after", "lost"), ("truncate", "lost"), ("html-200", "unusable"), ("empty-200", "unusable"),
            ("huge", "unusable"), ("gzip-bomb", "unusable"), ("redirect", "unusable"), ("crlf-token", "unusable"),
            ("array-token", "unusable"), ("empty-token", "unusable"), ("no-access-token", "unusable"),
            ("long-token", "unusable"), ("token-type-mac", "unusable"), ("duplicate-member", "unusable"),
            ("error-200", "rejected"), ("error-object", "rejected"),
        ])
    func failures(_ name: String, _ expected: String) async throws {
        var fault = Fault(provider: "oidc", endpoint: "token", name)
        if name == "status" { fault.status = 503 }
        if name == "long-token" { fault.value = .int(20_000) }
        guard case .failure(let failure) = try await redeem(fault) else { return #expect(Bool(false), "\(name)") }
        #expect(failure.shortDescription == expected, "\(name): \(failure)")
    }

    @Test(
        "Absurd lifetimes give a bounded lifetime or none (SEC-21)",
        arguments: ["absent", "null", "0", "-1", "string", "1.5", "1e300", "2^63", "\"3600\"", "[]", "1800003600"])
    func lifetimes(_ value: String) async throws {
        let tokens = try await redeem(Fault(provider: "oidc", "expires-in-" + value)).get()
        if let end = tokens.expiresAt {
            let life = end.since(Support.clock.now())
            #expect(life > .seconds(-5) && life <= .seconds(Lifetime.longest))
        }
    }

    @Test("A provider that hangs does not slow another (SEC-120)")
    func isolation() async throws {
        let hanging = try RawServer { _ in .hang }
        let healthy = try RawServer { _ in .json(#"{"access_token":"at-1"}"#) }
        func plain(_ base: String, _ name: String) -> ProviderSettings {
            ProviderSettings(
                name: ProviderName(unchecked: name), service: .oauth2,
                endpoints: EndpointSettings(
                    authorization: base + "/a", token: base + "/t", userinfo: base + "/me"),
                limits: CallLimits(total: .seconds(60)),
                clients: [ClientSettings(profile: Support.profile(), clientID: "cid-1")])
        }
        let http = ProviderHTTP()
        let clients = try ProviderCatalogue.make(
            settings: [plain(hanging.base, "slow"), plain(healthy.base, "fast")], http: http, clock: Support.clock,
            random: Support.random)
        let slow = try #require(clients.first as? any CodeExchanging)
        let fast = try #require(clients.last as? any CodeExchanging)
        let ended = Counter()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<40 {
                group.addTask {
                    _ = await Support.failure { try await slow.redeem(Support.grant()) }
                    ended.add()
                }
            }
            while hanging.received.count < 40 { try? await Task.sleep(for: .milliseconds(5)) }
            for _ in 0..<10 { #expect(await Support.failure { try await fast.redeem(Support.grant()) } == nil) }
            // All of the fast one's calls came and went while every one of the slow one's still hung.
            #expect(ended.value == 0)
            group.cancelAll()
        }
        await http.shutdown()
    }
}
