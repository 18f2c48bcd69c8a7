import Broker
import Crypto
import Foundation
import Testing

@testable import BrokerProviders

@Suite("The keys of exports", .timeLimit(.minutes(2)))
struct ExportKeyTests {
    // A key of 1024 bits that was made for this test.
    private static let weak = """
        -----BEGIN PUBLIC KEY-----
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC/PU21pIwFwgyOjtTXcdHWCHv7
        Jy1x5Bh0u26L3f7UQ64J2B7GCvPh2SSHePOMwLGp5gwRaXWFQ5QqhMyoISJmeOfM
        41PmWmQz7lMsXnuN7QCLm9EfV71Jq5xlHMl4w5twuOwRvxLpqyJNbJGj068fxs2L
        tJwi4KbfwfzjLJGvWwIDAQAB
        -----END PUBLIC KEY-----
        """

    /// Key pairs on all curves, in PEM.
    private static var curves: [(public: String, private: String)] {
        let (p256, p384, p521) = (
            P256.KeyAgreement.PrivateKey(), P384.KeyAgreement.PrivateKey(), P521.KeyAgreement.PrivateKey()
        )
        return [
            (p256.publicKey.pemRepresentation, p256.pemRepresentation),
            (p384.publicKey.pemRepresentation, p384.pemRepresentation),
            (p521.publicKey.pemRepresentation, p521.pemRepresentation),
        ]
    }

    @Test("A private key, a weak RSA key, a key on another curve or another text → refused for sealing")
    func refused() throws {
        let signing = Curve25519.Signing.PrivateKey()
        let prefix: [UInt8] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]
        let der = Data(prefix) + signing.publicKey.rawRepresentation
        let other = "-----BEGIN PUBLIC KEY-----\n\(der.base64EncodedString())\n-----END PUBLIC KEY-----\n"
        for (pem, words) in [
            (P256.KeyAgreement.PrivateKey().pemRepresentation, "is a private key"), (Self.weak, "1024 bits"),
            (other, "P-256, P-384 or P-521"), ("ssh-rsa AAAA", "has to be a public key"),
            ("", "has to be a public key"),
        ] {
            let failure = #expect(throws: ExportKeyFailure.self) { try ExportKey(pem: pem) }
            #expect(failure?.description.contains(words) == true, "\(words)")
        }
    }

    @Test("A public key, an encrypted private key or another text → refused for opening")
    func unusable() throws {
        for pem in [
            P256.KeyAgreement.PrivateKey().publicKey.pemRepresentation, "",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n",
        ] {
            #expect(throws: ExportKeyFailure.self) { try ImportKey(pem: pem) }
        }
    }

    @Test("A line that is changed, cut, of another algorithm, or sealed for another key → stays closed")
    func changed() throws {
        let pair = try #require(Self.curves.first)
        let key = try ImportKey(pem: pair.private)
        let line = try ExportKey(pem: pair.public).seal(Array("canary".utf8))
        let parts = line.split(separator: ".").map(String.init)
        let header = try #require(Base64URL.decode(parts[0]).map { String(decoding: $0, as: UTF8.self) })
        func with(_ old: String, _ new: String) -> String {
            let changed = header.replacingOccurrences(of: old, with: new)
            return ([Base64URL.encode(Array(changed.utf8))] + parts.dropFirst()).joined(separator: ".")
        }
        let other = try ExportKey(pem: P256.KeyAgreement.PrivateKey().publicKey.pemRepresentation).seal([1])
        let faulty = [
            "", ".", "....", "a.b.c.d.e", String(line.dropLast(8)), line + "A", line + ".", other,
            with("A256GCM", "A128GCM"),
            with("A256KW", "A128KW"), with("ECDH-ES+A256KW", "RSA-OAEP-256"), with("{", #"{"crit":["exp"],"#),
            with("{", #"{"zip":"DEF","#), with("P-256", "P-384"), with(#""x":""#, #""x":"A"#),
            with("{", #"{"kid":"a","#),
        ]
        for text in faulty { #expect(key.open(Array(text.utf8)) == nil, "\(text.prefix(60))") }
        for index in 1..<5 {
            var segments = parts
            segments[index] = (segments[index].hasPrefix("A") ? "B" : "A") + segments[index].dropFirst()
            #expect(key.open(Array(segments.joined(separator: ".").utf8)) == nil, "segment \(index)")
        }
        #expect(key.open(Array(line.utf8)) == Array("canary".utf8))
    }

    @Test("A line for a key on each curve → opens with the private key, and two lines of the same text differ")
    func curves() throws {
        for pair in Self.curves {
            let (sealing, opening) = (try ExportKey(pem: pair.public), try ImportKey(pem: pair.private))
            let (one, two) = (try sealing.seal([1, 2, 3]), try sealing.seal([1, 2, 3]))
            #expect(one != two)
            #expect(opening.open(Array(one.utf8)) == [1, 2, 3])
            #expect(sealing.name.utf8.count == 43)
        }
    }
}
