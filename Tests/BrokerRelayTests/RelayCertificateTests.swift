import Broker
import BrokerRelay
import HTTPTypes
import NIOSSL
import Synchronization
import Testing

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

    /// Makes a call with a token of each certificate in turn, or without a possible refresh (nil).
    ///
    /// Returns the problem code, the number of tokens that the relay requested, and whether it tried a connection.
    private func call(
        _ given: [String?], shown: String?, secure: Bool = true, refreshable: Bool = true
    ) async throws -> (code: ProblemCode?, asked: Int, isTried: Bool) {
        let asked = Mutex(0)
        var shows: ClientCertificates?
        if let shown {
            let certificate = RelayCertificate(
                id: try #require(Digest([UInt8](repeating: 1, count: 32))), thumbprint: shown,
                chain: try NIOSSLCertificate.fromPEMBytes(Array(Self.certificate.utf8)),
                key: try NIOSSLPrivateKey(bytes: Array(Self.key.utf8), format: .pem))
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
        "A bound token → sent only on connections with its certificate; another certificate is shown → one refresh first"
    )
    func shown() async throws {
        // This upstream closes each connection, so the test only checks whether a connection was tried.
        #expect(try await call(["first"], shown: "first") == (.upstreamError, 1, true))
        #expect(try await call(["first", "second"], shown: "second") == (.upstreamError, 2, true))
        #expect(try await call(["first"], shown: "second") == (.providerUnavailable, 2, false))
        #expect(try await call(["first"], shown: nil) == (.providerUnavailable, 2, false))
        #expect(try await call(["first", nil], shown: "second", refreshable: false) == (.upstreamNotAllowed, 2, false))
        #expect(try await call(["first", nil], shown: nil, refreshable: false) == (.upstreamNotAllowed, 2, false))
    }

    @Test("An upstream without TLS → the token is not sent, and no refresh is forced")
    func plain() async throws {
        #expect(try await call(["first"], shown: "first", secure: false) == (.upstreamNotAllowed, 1, false))
    }
}
