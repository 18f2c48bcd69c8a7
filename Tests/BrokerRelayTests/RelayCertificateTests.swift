import Broker
import HTTPTypes
import NIOSSL
import Synchronization
import Testing

@testable import BrokerRelay

@Suite("Relayed calls with certificate-bound tokens (RFC 8705 section 3)", .timeLimit(.minutes(2)))
struct RelayCertificateTests {
    private static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgRLIhsy9NQNMxhOap
        Mk2omJDcY3qvIs/druIvWJdz+9uhRANCAATGpIJDy7sKfEojlKr17pP3TuvCa8pY
        QZyOk2cSePj2B+q/8HrYuw0yq3hBSyR74S0zk6CMzumMleXUblzKique
        -----END PRIVATE KEY-----
        """
    private static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBFTCBvaADAgECAgEHMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMMCWxvY2FsaG9z
        dDAgFw0zMDAxMDEwMDAwMDBaGA8yMTAwMDEwMTAwMDAwMFowFDESMBAGA1UEAwwJ
        bG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAExqSCQ8u7CnxKI5Sq
        9e6T907rwmvKWEGcjpNnEnj49gfqv/B62LsNMqt4QUske+EtM5OgjM7pjJXl1G5c
        yoqrnjAKBggqhkjOPQQDAgNHADBEAiARwicH2YDz6VenQNlZxCqdDuG1FUAXYSE4
        VmU6nkLvLgIgIpCPgX8i/MB4M4vPjSXwk6bUqtG9kHOdEd/NXp4k9sY=
        -----END CERTIFICATE-----
        """

    private static func certificate(_ number: UInt8, thumbprint: String) throws -> RelayCertificate {
        RelayCertificate(
            id: try #require(Digest([UInt8](repeating: number, count: 32))), thumbprint: thumbprint,
            chain: try NIOSSLCertificate.fromPEMBytes(Array(certificate.utf8)),
            key: try NIOSSLPrivateKey(bytes: Array(key.utf8), format: .pem))
    }

    /// Makes a call.
    ///
    /// The relay gets tokens that are bound to the certificates in `given`, in turn; nil means that the refresh fails.
    ///
    /// Returns the problem code, the number of tokens that the relay requested, and whether the relay tried to connect.
    private func call(
        _ given: [String?], shown: String?, secure: Bool = true, refreshable: Bool = true
    ) async throws -> (code: ProblemCode?, asked: Int, isTried: Bool) {
        let asked = Mutex(0)
        var shows: ClientCertificates?
        if let shown {
            let certificate = try Self.certificate(1, thumbprint: shown)
            shows = { _, _, _ in certificate }
        }
        var result: (code: ProblemCode?, asked: Int, isTried: Bool) = (nil, 0, false)
        try await ScriptedUpstream.run({ _ in }) { upstream in
            let url = (secure ? "https" : "http") + "://127.0.0.1:\(upstream.port)"
            try await RelayFixture.run(at: url, certificates: shows) { fixture in
                var code: ProblemCode?
                do {
                    _ = try await fixture.relay.call(
                        try fixture.request(.get, "/a"), session: RelayFixture.session(refreshable: refreshable),
                        signIns: fixture.signIns,
                        token: { (_, _, _) throws(BrokerProblem) in
                            let number = asked.withLock { asked in
                                asked += 1
                                return asked
                            }
                            guard let certificate = given[min(number, given.count) - 1] else {
                                throw BrokerProblem(.notRefreshable)
                            }
                            return AccessToken(
                                token: Secret("at-\(number)"), credential: .mtls, certificate: certificate,
                                expiresAt: nil, scope: [], version: Int64(number),
                                issuedAt: WallTime(milliseconds: 0))
                        })
                } catch let problem as BrokerProblem { code = problem.code }
                result = (code, asked.withLock { $0 }, upstream.opened > 0)
            }
        }
        return result
    }

    @Test(
        "A token is bound to the relay's certificate → sent; to another one → refreshed once, and sent if the new token fits"
    )
    func shown() async throws {
        // The upstream accepts connections without ever answering, so the test checks only whether the relay tried to connect.
        #expect(try await call(["first"], shown: "first") == (.upstreamError, 1, true))
        #expect(try await call(["first", "second"], shown: "second") == (.upstreamError, 2, true))
        #expect(try await call(["first"], shown: "second") == (.providerUnavailable, 2, false))
        #expect(try await call(["first"], shown: nil) == (.providerUnavailable, 2, false))
        #expect(try await call(["first", nil], shown: "second", refreshable: false) == (.upstreamNotAllowed, 2, false))
        #expect(try await call(["first", nil], shown: nil, refreshable: false) == (.upstreamNotAllowed, 2, false))
    }

    @Test(
        "A session's token is bound to a certificate, and its upstream has no TLS → the token is not sent, and not refreshed"
    )
    func plain() async throws {
        #expect(try await call(["first"], shown: "first", secure: false) == (.upstreamNotAllowed, 1, false))
    }

    private static func pools(_ url: String) throws -> UpstreamPools {
        let settings = try UpstreamSettings(
            name: UpstreamName(unchecked: "api"), baseURL: url, provider: ProviderName(unchecked: "as"),
            allow: ["GET /*"])
        return Upstream(settings, outbound: RelayOutbound(), tls: nil).pools
    }

    @Test("Two clients with different certificates call in turn → each client has a connection pool of its own")
    func twoClients() async throws {
        let pools = try Self.pools("https://api.example.com")
        let (ios, desk) = (ClientName(unchecked: "ios"), ClientName(unchecked: "desk"))
        let (one, two) = (try Self.certificate(1, thumbprint: "1"), try Self.certificate(2, thumbprint: "2"))
        let (first, second) = (pools.client(showing: one, for: ios), pools.client(showing: two, for: desk))
        #expect(first !== second && first !== pools.plain && second !== pools.plain)
        #expect(pools.client(showing: one, for: ios) === first && pools.client(showing: two, for: desk) === second)
        // Without a client name, the connections show the upstream's own certificate. If this certificate equals a client's
        // certificate, both use one pool.
        #expect(pools.client(showing: one, for: nil) === first)
        #expect(pools.client(showing: nil, for: ios) === pools.plain)
        await pools.shutDown()
    }

    @Test("A client's certificate is replaced → the pool whose connections showed the old certificate is dropped")
    func replaced() async throws {
        let pools = try Self.pools("https://api.example.com")
        let ios = ClientName(unchecked: "ios")
        let (one, two) = (try Self.certificate(1, thumbprint: "1"), try Self.certificate(2, thumbprint: "2"))
        let old = pools.client(showing: one, for: ios)
        #expect(pools.client(showing: one, for: ios) === old)
        _ = pools.client(showing: two, for: ios)
        #expect(pools.client(showing: one, for: ios) !== old)
        await pools.shutDown()
    }

    @Test("A client with a certificate calls an upstream without TLS → the pool that shows no certificate is used")
    func withoutTLS() async throws {
        let pools = try Self.pools("http://127.0.0.1:9")
        #expect(
            pools.client(showing: try Self.certificate(1, thumbprint: "1"), for: ClientName(unchecked: "ios"))
                === pools.plain)
        await pools.shutDown()
    }
}
