import Broker
import BrokerProviders
import BrokerVault
import Synchronization
import Testing

@testable import coatcheck

/// A clock that a test sets.
private final class Moment: Sendable {
    private let time = Mutex<Int64>(1_800_000_000)

    var now: WallTime { WallTime(seconds: time.withLock { $0 }) }

    func set(_ seconds: Int64) { time.withLock { $0 = seconds } }
}

/// Certificates whose files change; tests give the texts, without real files.
@Suite("The watch over certificates", .timeLimit(.minutes(1)))
struct CertificateWatchTests {
    private static let files = ClientIdentity.Files(certificate: "shown.pem", key: "shown.key")
    private static let good = CertificateWatch.Pair(
        certificate: Array(ConfigurationFixture.certificate.utf8), key: Array(ConfigurationFixture.certificateKey.utf8))
    /// A certificate that is valid from 2030 to 2099; `good` is valid from 2026 to 2126.
    private static let later = CertificateWatch.Pair(
        certificate: Array(
            """
            -----BEGIN CERTIFICATE-----
            MIIBFTCBvaADAgECAgEHMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMMCWxvY2FsaG9z
            dDAgFw0zMDAxMDEwMDAwMDBaGA8yMTAwMDEwMTAwMDAwMFowFDESMBAGA1UEAwwJ
            bG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAExqSCQ8u7CnxKI5Sq
            9e6T907rwmvKWEGcjpNnEnj49gfqv/B62LsNMqt4QUske+EtM5OgjM7pjJXl1G5c
            yoqrnjAKBggqhkjOPQQDAgNHADBEAiARwicH2YDz6VenQNlZxCqdDuG1FUAXYSE4
            VmU6nkLvLgIgIpCPgX8i/MB4M4vPjSXwk6bUqtG9kHOdEd/NXp4k9sY=
            -----END CERTIFICATE-----
            """.utf8), key: Array(ConfigurationFixture.otherKey.utf8))
    private static let half = CertificateWatch.Pair(
        certificate: Array(ConfigurationFixture.certificate.utf8), key: Array(ConfigurationFixture.otherKey.utf8))

    private let lines = WrittenLines()
    private let metrics = MetricsRegistry()
    private let clock = Moment()
    private let identity: ClientIdentity
    private let watch: CertificateWatch

    init() throws {
        let text = """
            server: {public_url: "https://auth.example.com"}
            keys: {file: keys.json}
            providers:
              bank:
                kind: oidc
                issuer: https://bank.example.com
                clients:
                  web:
                    client_id: app
                    auth: none
                    redirect_uris: ["com.example.bank:/cb"]
                    tls: {certificate: shown.pem, key: shown.key}
            """
        var sources = ConfigurationFixture.sources
        sources.readFile = { path throws(FileFault) in
            switch path {
            case "shown.pem": Self.good.certificate
            case "shown.key": Self.good.key
            default: try ConfigurationFixture.sources.readFile(path)
            }
        }
        let configuration = try Configuration.load(text: text, sources: sources)
        let http = ProviderHTTP()
        let providers = try ProviderCatalogue.make(
            settings: configuration.providers.map(\.settings), http: http, clock: SystemClock.clock,
            random: { [UInt8](repeating: 0, count: $0) })
        let shown = ShownCertificates(ProviderDirectory(providers), configuration.upstreams)
        identity = try #require(shown.clients.first?.identity)
        let vault = try OpenSSLVault(
            ring: KeyRing.generate(now: SystemClock.wallTime(), random: SystemRandom.bytes))
        watch = CertificateWatch(
            current: { shown }, digest: { vault.digest($0) }, now: { [clock] in clock.now },
            log: ProcessLog(level: .info, now: SystemClock.wallTime, emit: { [lines] in lines.add($0) }),
            metrics: metrics)
    }

    private func take(_ text: Result<CertificateWatch.Pair, FileFault>, isAsked: Bool = false) {
        watch.take([Self.files: text], isAsked: isAsked)
    }

    private var failures: Bool { metrics.text().contains("coatcheck_certificate_reload_failures_total 1") }

    @Test(
        "A new certificate does not fit its key, or a file is missing → a log line, and the old pair stays in use"
    )
    func refused() {
        let before = identity.current.id
        take(.success(Self.half))
        #expect(failures && lines.all.contains("client certificate not reloaded"))
        #expect(lines.all.contains("is not the key of the first certificate"))
        take(.success(Self.half))
        #expect(failures, "an unchanged file does not count as a further failure")
        #expect(identity.current.id == before)
        take(.failure(.missing))
        #expect(lines.all.contains("does not exist"))
        #expect(identity.current.id == before)
    }

    @Test(
        "A new certificate is not valid yet → a log line, and the old one stays; the new one becomes valid → it is used"
    )
    func notYet() {
        let before = identity.current.id
        for _ in 0..<3 { take(.success(Self.later)) }
        #expect(identity.current.id == before && failures && lines.all.contains("is not valid yet"))
        clock.set(1_906_502_400)
        take(.success(Self.later))
        #expect(identity.current.id != before && failures && lines.all.contains("client certificate reloaded"))
    }

    @Test("A new certificate has expired → refused if the old one is valid, used if the old one has expired, too")
    func runOut() {
        clock.set(1_906_502_400)
        take(.success(Self.later))
        let later = identity.current.id
        take(.success(Self.good))
        let good = identity.current.id
        #expect(good != later && !failures)
        // In the year 2110, `later` has expired and `good` is valid.
        clock.set(4_417_977_600)
        take(.success(Self.later))
        #expect(identity.current.id == good && failures && lines.all.contains("has run out"))
        // In the year 2128, both certificates have expired.
        clock.set(4_986_000_000)
        take(.success(Self.later))
        #expect(identity.current.id == later)
    }

    @Test("The files have the certificate and key that are already in use → no change and no log line")
    func same() {
        let before = identity.current.id
        take(.success(Self.good))
        take(.success(Self.good), isAsked: true)
        #expect(identity.current.id == before && !lines.all.contains("client certificate"))
        #expect(!failures)
    }
}
