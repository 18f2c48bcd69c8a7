import Broker
import BrokerTestSupport
import Foundation
import Testing

@testable import BrokerProviders

extension TestClock {
    /// The clock for calls over sockets, whose time limits pass in real time.
    var waiting: BrokerClock {
        BrokerClock(now: { self.now }, monotonic: { self.monotonic }, sleep: { try await Task.sleep(for: $0) })
    }
}

enum Support {
    /// The real time, for tests against the sandbox.
    static let clock: BrokerClock = {
        let start = ContinuousClock.now
        return BrokerClock(
            now: { WallTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) },
            monotonic: { ContinuousClock.now - start }, sleep: { try await Task.sleep(for: $0) })
    }()

    static let random: @Sendable (Int) throws -> [UInt8] = { count in
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }

    /// A time that no test's clock reaches, so calls end by their own limits.
    static let deadline = Duration.seconds(1_000_000)

    static let ios = ClientName(unchecked: "ios")
    static let redirect = "com.example.app:/oauth2redirect"

    static func profile(
        _ name: String = "ios", redirects: [String] = [redirect], nonce: Bool = true,
        _ change: (inout ClientProfile) -> Void = { _ in }
    ) -> ClientProfile {
        var profile = ClientProfile(
            name: ClientName(unchecked: name), redirectURIs: redirects.compactMap { RedirectURI($0) },
            scope: ["openid", "email"], nonce: nonce)
        change(&profile)
        return profile
    }

    /// Calls `body` with a provider client for `settings`, which has a transport of its own.
    static func with<Result>(
        _ settings: ProviderSettings, clock: BrokerClock = Support.clock,
        transport: TransportSettings = TransportSettings(), _ body: (any ProviderClient) async throws -> Result
    ) async throws -> Result {
        let http = ProviderHTTP(settings: transport)
        do {
            let client = try #require(
                try ProviderCatalogue.make(settings: [settings], http: http, clock: clock, random: random).first)
            let result = try await body(client)
            await http.shutdown()
            return result
        } catch {
            await http.shutdown()
            throw error
        }
    }

    static func grant(
        _ code: String = "c0de-1", redirect: CodeGrant.RedirectParameter = .uri(Support.redirect),
        verifier: String? = String(repeating: "V", count: 43)
    ) -> CodeGrant {
        CodeGrant(
            client: ios, code: Secret(code), redirect: redirect, verifier: verifier.map { Secret($0) },
            idempotencyKey: String(repeating: "k", count: 43))
    }

    static func context(nonce: String? = nil, callback: [(name: String, value: String)] = []) -> IdentityContext {
        IdentityContext(
            client: ios, nonce: nonce.map { .exactly(Secret($0)) } ?? .none, callback: callback, requestedScope: [])
    }

    static func refresh(_ token: String = "rt-1", recovering: Bool = false) -> RefreshRequest {
        RefreshRequest(
            client: ios, refreshToken: Secret(token), accessToken: Secret("at-1"),
            idempotencyKey: String(repeating: "k", count: 43), recovering: recovering)
    }

    /// The failure that a call throws; nil if the call throws nothing.
    ///
    /// Any other error fails the test.
    static func failure<Value>(_ call: () async throws -> Value) async -> ProviderFailure? {
        do {
            _ = try await call()
            return nil
        } catch let failure as ProviderFailure {
            return failure
        } catch {
            Issue.record(error)
            return nil
        }
    }
}
