import Testing

@testable import Broker

@Suite("Digests (SEC-53)", .timeLimit(.minutes(2)))
struct DigestTests {
    @Test("Bytes of another length than 32 → `Digest` is nil", arguments: [0, 1, 31, 33, 64])
    func length(count: Int) {
        #expect(Digest([UInt8](repeating: 7, count: count)) == nil)
    }

    @Test("A digest is made from 32 bytes → it returns them in the same order")
    func bytes() throws {
        let bytes = (0..<32).map { UInt8(($0 * 7 + 129) & 255) }
        #expect(try #require(Digest(bytes)).bytes == bytes)
        #expect(try #require(Digest([UInt8](repeating: 255, count: 32))).bytes == [UInt8](repeating: 255, count: 32))
    }

    @Test("Two digests differ in a single bit → they are unequal, and nearly always have different hash values")
    func difference() throws {
        let bytes = (0..<32).map { UInt8($0) }
        let digest = try #require(Digest(bytes))
        #expect(try digest == #require(Digest(bytes)))
        #expect(try digest.hashValue == #require(Digest(bytes)).hashValue)
        var hashes: Set<Int> = [digest.hashValue]
        for bit in 0..<256 {
            var other = bytes
            other[bit / 8] ^= 1 << UInt8(bit % 8)
            let changed = try #require(Digest(other))
            #expect(digest != changed, "bit \(bit)")
            hashes.insert(changed.hashValue)
        }
        // The 257 digests differ in single words. If the hash ignored one of the words, only 193 hashes would be different.
        #expect(hashes.count > 250)
    }
}
