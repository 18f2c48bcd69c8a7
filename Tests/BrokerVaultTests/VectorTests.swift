import Broker
import Testing

@testable import BrokerVault

/// Published vectors, and values from other implementations (Python's hmac, hashlib and cryptography).
@Suite("Known answers", .timeLimit(.minutes(2)))
struct VectorTests {
    private func bytes(_ hexadecimal: String) -> [UInt8] {
        var result: [UInt8] = []
        var high: UInt8?
        for character in hexadecimal {
            guard let digit = character.hexDigitValue else { continue }
            if let first = high {
                result.append(first << 4 | UInt8(digit))
                high = nil
            } else {
                high = UInt8(digit)
            }
        }
        return result
    }

    @Test("SHA-256 of \"abc\" → FIPS 180-4's value")
    func sha256() throws {
        let algorithms = try #require(Algorithms.shared)
        #expect(
            algorithms.digest(Array("abc".utf8))
                == bytes("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"))
        #expect(
            algorithms.digest([])
                == bytes("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"))
    }

    @Test("HKDF-SHA-256 → RFC 5869's values, appendices A.1 and A.3")
    func hkdf() throws {
        let algorithms = try #require(Algorithms.shared)
        let key = SecretBytes([UInt8](repeating: 0x0B, count: 22))
        let first = try #require(
            algorithms.hkdf(
                key: key, salt: bytes("000102030405060708090a0b0c"), info: bytes("f0f1f2f3f4f5f6f7f8f9"), count: 42))
        let third = try #require(algorithms.hkdf(key: key, salt: [], info: [], count: 42))
        func text(_ secret: SecretBytes) -> [UInt8] {
            let count = secret.count
            return secret.withBytes { Array(UnsafeBufferPointer(start: $0, count: count)) }
        }
        #expect(
            text(first)
                == bytes(
                    "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"))
        #expect(
            text(third)
                == bytes(
                    "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"))
    }

    @Test("HMAC-SHA-256 of a message, whole or in parts → RFC 4231's value, case 2")
    func hmac() throws {
        let algorithms = try #require(Algorithms.shared)
        let hash = try #require(KeyedHash(algorithms, key: SecretBytes(Array("Jefe".utf8))))
        let expected = bytes("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        #expect(hash.code(of: Array("what do ya want for nothing?".utf8)) == expected)
        #expect(hash.code(of: Array("what do ya want".utf8), [], Array(" for nothing?".utf8)) == expected)
        #expect(hash.code(of: Array("what do ya want for nothing?".utf8)) == expected)
    }

    @Test(
        "AES-256-GCM opens the GCM specification's test case 16 → its plaintext; a change in any part → does not open")
    func gcm() throws {
        let algorithms = try #require(Algorithms.shared)
        let key = SecretBytes(bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"))
        let associated = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2")
        let envelope =
            bytes("01 cafebabefacedbaddecaf888")
            + bytes(
                """
                522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
                8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662
                """) + bytes("76fc6ece0f4e1768cddf8853bb2d551b")
        let plaintext = try Envelope.open(envelope, key: key, associatedData: associated, algorithms: algorithms)
        #expect(
            plaintext
                == bytes(
                    """
                    d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                    1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39
                    """))
        #expect(throws: EnvelopeFailure.tag) {
            try Envelope.open(envelope, key: key, associatedData: associated + [0], algorithms: algorithms)
        }
    }

    @Test(
        "A Python implementation made a record, an index and a session token → the vault opens or computes the same values"
    )
    func otherImplementation() throws {
        let vault = try Fixture.vault()
        let envelope = try #require(Base64URL.decode("AQABAgMEBQYHCAkKC8P6Ww2uz7akYgL0K5TsuPBB-h_TRs8ZJ19fggM"))
        let opened = try vault.open(Sealed(keyID: "k1", envelope: envelope), as: .tokens, row: Fixture.digest(9))
        #expect(opened == Array("hello tokens".utf8))
        #expect(
            vault.index(.subject, ["https://issuer.example", "user-1"]).bytes
                == bytes("c1abbf0789c97d419f21a94ff81422885495f84b8f53569b5180ac16616472f2"))
        let token = try vault.sessionToken(
            keyID: "k1", salt: [UInt8](repeating: 7, count: 32), proof: Secret("proof-of-the-starter"))
        #expect(token.reveal() == "8WXcmd9rblXLTp8WP_r7P3hxQJ6rjLwM6tEWqpxRPkg")
    }
}
