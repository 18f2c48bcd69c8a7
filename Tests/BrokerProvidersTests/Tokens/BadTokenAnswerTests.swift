import Broker
import BrokerTestSupport
import Sandbox
import Testing

@testable import BrokerProviders

@Suite("Sign-ins with bad token answers of the sandbox", .timeLimit(.minutes(2)))
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
            // A busy machine may need several seconds to decompress. Only the fault `hang` takes the whole limit.
            let total = Duration.seconds(fault.name == "hang" ? 6 : 30)
            let result = try await Support.with(settings(sandbox.baseURL, total: total)) { client in
                let flow = Flow(provider: try #require(client as? any CodeExchanging))
                let callback = try await flow.callback()
                try sandbox.control.place(fault)
                do { return Result<TokenSet, ProviderFailure>.success(try await flow.redeem(callback)) } catch let
                    failure as ProviderFailure
                {
                    return .failure(failure)
                }
            }
            // Each fault costs exactly one token call, and a redirect's target receives no call (SEC-17).
            #expect(sandbox.control.count("oidc", "token") == 1)
            #expect(sandbox.control.requests(provider: "api").isEmpty)
            return result
        }
    }

    @Test(
        "A token answer with a fault → retryable, lost, unusable or rejected, depending on the fault (SEC-20, SEC-122)",
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
        switch try await redeem(fault) {
        case .failure(let failure): #expect(failure.shortDescription == expected, "\(name): \(failure)")
        // The unusable answer has tokens, so they are kept for revocation.
        case .success(let tokens): #expect(expected == "unusable" && tokens.refusal != nil, "\(name)")
        }
    }

    @Test(
        "An absurd or missing expires_in → a lifetime of at most the limit, or no lifetime (SEC-21)",
        arguments: ["absent", "null", "0", "-1", "string", "1.5", "1e300", "2^63", "\"3600\"", "[]", "1800003600"])
    func lifetimes(_ value: String) async throws {
        let tokens = try await redeem(Fault(provider: "oidc", "expires-in-" + value)).get()
        if let end = tokens.expiresAt {
            let life = end.since(Support.clock.now())
            // On a busy machine, a token with a very short lifetime may already have expired at this point.
            #expect(life > .seconds(-60) && life <= .seconds(Lifetime.longest))
        }
    }
}
