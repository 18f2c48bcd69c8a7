import Synchronization
import Testing

@testable import BrokerWire

@Suite("A listener's certificate", .timeLimit(.minutes(1)))
struct ServerTLSTests {
    private static let otherKey = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgW4XrYUgR7/3nQ9l1
        mDYCb7/U/BKQz8x+Df0QkNjVTzChRANCAARmWLqNX2a+LeYcCt2/vG6/1y67oq2V
        2Ww3q5FxYNGNguYnicnDnK8uO1Zvvq7SapTKu9WxU3FaqBic2940zucc
        -----END PRIVATE KEY-----
        """
    private func make(
        _ certificate: String = TestCertificate.certificate, _ key: String = TestCertificate.key,
        now: Int64 = TestCertificate.now
    ) throws(ServerTLS.Failure) -> ServerTLS {
        try ServerTLS(certificate: Array(certificate.utf8), key: Array(key.utf8), now: now)
    }

    @Test(
        "A listener's certificate or key is missing, does not fit, has expired or is not yet valid → refused with the reason"
    )
    func refusals() {
        #expect(throws: ServerTLS.Failure.noCertificate) { try make("") }
        #expect(throws: ServerTLS.Failure.noCertificate) { try make(TestCertificate.key) }
        #expect(throws: ServerTLS.Failure.noCertificate) {
            try make("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        }
        #expect(throws: ServerTLS.Failure.noKey) { try make(TestCertificate.certificate, "") }
        #expect(throws: ServerTLS.Failure.noKey) { try make(TestCertificate.certificate, TestCertificate.certificate) }
        #expect(throws: ServerTLS.Failure.doesNotFit) { try make(TestCertificate.certificate, Self.otherKey) }
        #expect(throws: ServerTLS.Failure.runOut(4_948_961_502)) { try make(now: 5_000_000_000) }
        #expect(throws: ServerTLS.Failure.notYet(1_795_361_502)) { try make(now: 1_700_000_000) }
    }

    @Test("A listener's certificate fits its key → accepted, and its names and its end are known")
    func serves() throws {
        let tls = try make()
        #expect(tls.names == ["localhost", "*.example.com"])
        #expect(tls.expiresAt == 4_948_961_502)
        for host in ["localhost", "LOCALHOST", "auth.example.com"] { #expect(tls.isFor(host)) }
        for host in ["example.com", ".example.com", "a.b.example.com", "auth.example.org", "127.0.0.1", ""] {
            #expect(!tls.isFor(host), "\(host)")
        }
    }

    @Test("A listener has one TLS handshake more than allowed → its oldest unfinished handshake is closed (SEC-105)")
    func room() {
        let room = HandshakeRoom(maximum: 3)
        let gone = Mutex<[Int]>([])
        let places = (0..<3).map { number in room.enter { gone.withLock { $0.append(number) } } }
        #expect(room.count == 3 && gone.withLock { $0 }.isEmpty)
        // The first handshake has finished. So a fourth handshake can begin, and none is closed for it.
        room.leave(places[0])
        let fourth = room.enter { gone.withLock { $0.append(3) } }
        #expect(room.count == 3 && gone.withLock { $0 }.isEmpty)
        for number in 4..<6 { _ = room.enter { gone.withLock { $0.append(number) } } }
        #expect(room.count == 3 && gone.withLock { $0 } == [1, 2])
        // A handshake that was closed to make room is no longer counted. The end of its connection does not reduce the count
        // again.
        room.leave(places[1])
        room.leave(fourth)
        #expect(room.count == 2)
    }
}
