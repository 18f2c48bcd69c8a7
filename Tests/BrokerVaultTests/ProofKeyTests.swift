import Broker
import BrokerVault
import Testing

@Suite("Keys for tokens that the provider binds", .timeLimit(.minutes(1)))
struct ProofKeyTests {
    private func bytes(_ hexadecimal: String) -> [UInt8] {
        stride(from: 0, to: hexadecimal.count, by: 2).compactMap { start in
            let begin = hexadecimal.index(hexadecimal.startIndex, offsetBy: start)
            return UInt8(hexadecimal[begin..<hexadecimal.index(begin, offsetBy: 2)], radix: 16)
        }
    }

    @Test("The private key of RFC 6979 A.2.5 as the seed → the public key of RFC 6979 A.2.5")
    func vector() throws {
        let vault = try Fixture.vault()
        let scalar = bytes("C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721")
        let pair = try vault.proofKeyPair(seed: scalar)
        #expect(pair.publicKey.x == bytes("60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6"))
        #expect(pair.publicKey.y == bytes("7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299"))
        #expect(Base64URL.decode(pair.scalar.reveal()) == scalar)
    }

    @Test("A seed that is not a private key of P-256 → a usable key, and the same key each time")
    func outOfRange() throws {
        let vault = try Fixture.vault()
        let order = "FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551"
        for seed in [
            [UInt8](repeating: 0, count: 32), [UInt8](repeating: 0xFF, count: 32), bytes(order), [], [1],
            [UInt8](repeating: 7, count: 100),
        ] {
            let pair = try vault.proofKeyPair(seed: seed)
            #expect(Base64URL.decode(pair.scalar.reveal()) != seed)
            #expect(try vault.proofKeyPair(seed: seed).publicKey == pair.publicKey)
            let signature = try vault.es256Signature(over: [1, 2, 3], by: pair)
            #expect(vault.isES256Signature(signature, over: [1, 2, 3], by: pair.publicKey))
        }
    }

    @Test("600 signatures → each has 64 bytes, is valid for its own key only, and differs from the others")
    func signatures() throws {
        let vault = try Fixture.vault()
        let (own, other) = (
            try vault.proofKeyPair(seed: try vault.random(32)), try vault.proofKeyPair(seed: try vault.random(32))
        )
        var seen: Set<[UInt8]> = []
        // Among 600 signatures, some have an `r` or `s` with a leading zero byte.
        for number in 0..<600 {
            let message = Array("message \(number)".utf8)
            let signature = try vault.es256Signature(over: message, by: own)
            #expect(signature.count == 64)
            #expect(vault.isES256Signature(signature, over: message, by: own.publicKey))
            #expect(!vault.isES256Signature(signature, over: message, by: other.publicKey))
            #expect(seen.insert(signature).inserted)
        }
    }

    @Test("A malformed private key → the signature fails; a key pair's description → does not show the private key")
    func noKey() throws {
        let vault = try Fixture.vault()
        let pair = try vault.proofKeyPair(seed: try vault.random(32))
        for scalar in ["", "AAAA", String(repeating: "!", count: 43)] {
            let broken = ProofKeyPair(publicKey: pair.publicKey, scalar: Secret(scalar))
            #expect(throws: VaultFailure.unavailable) { try vault.es256Signature(over: [1], by: broken) }
        }
        #expect(!"\(pair)".contains(pair.scalar.reveal()))
    }
}
