import Broker
import BrokerVault
import Testing

@Suite("Vault", .timeLimit(.minutes(2)))
struct VaultTests {
    @Test("A ciphertext is moved to another row, kind or key id → does not open (SEC-48)")
    func moved() throws {
        let ring = try KeyRing.parse(
            Fixture.file((id: "k1", key: Fixture.zeroTo31), (id: "k2", key: Fixture.otherKey)))
        let vault = try OpenSSLVault(ring: ring)
        let sealed = try vault.seal(Array("refresh-token".utf8), as: .tokens, row: Fixture.digest(1))
        #expect(throws: VaultFailure.doesNotOpen) { try vault.open(sealed, as: .tokens, row: Fixture.digest(2)) }
        for kind in SealedKind.allCases where kind != .tokens {
            #expect(throws: VaultFailure.doesNotOpen) { try vault.open(sealed, as: kind, row: Fixture.digest(1)) }
        }
        let renamed = Sealed(keyID: "k2", envelope: sealed.envelope)
        #expect(throws: VaultFailure.doesNotOpen) { try vault.open(renamed, as: .tokens, row: Fixture.digest(1)) }
        #expect(try vault.open(sealed, as: .tokens, row: Fixture.digest(1)) == Array("refresh-token".utf8))
    }

    @Test("A sealed record with a changed bit, or with a missing or additional byte → does not open (SEC-50)")
    func tampered() throws {
        let vault = try Fixture.vault()
        let row = try Fixture.digest(1)
        let sealed = try vault.seal(Array("short".utf8), as: .session, row: row)
        for position in sealed.envelope.indices {
            for bit in 0..<8 {
                let changed = sealed.altered { $0[position] ^= 1 << UInt8(bit) }
                #expect(throws: VaultFailure.doesNotOpen) { try vault.open(changed, as: .session, row: row) }
                #expect(vault.fault(of: changed, as: .session, row: row) == (position == 0 ? .version : .tag))
            }
        }
        for length in 0..<sealed.envelope.count {
            let cut = sealed.altered { $0.removeLast($0.count - length) }
            #expect(throws: VaultFailure.doesNotOpen) { try vault.open(cut, as: .session, row: row) }
            #expect(vault.fault(of: cut, as: .session, row: row) == (length < 29 ? .length : .tag))
        }
        let longer = sealed.altered { $0.append(0) }
        #expect(throws: VaultFailure.doesNotOpen) { try vault.open(longer, as: .session, row: row) }
        #expect(vault.fault(of: sealed, as: .session, row: row) == nil)
    }

    @Test("Plaintext in place of a sealed record → does not open (SEC-50)")
    func planted() throws {
        let vault = try Fixture.vault()
        let row = try Fixture.digest(1)
        let plants = ["", "{}", #"{"access_token":"planted"}"#, String(repeating: "\u{1}", count: 200)]
        for plant in plants {
            let sealed = Sealed(keyID: "k1", envelope: Array(plant.utf8))
            #expect(throws: VaultFailure.doesNotOpen) { try vault.open(sealed, as: .tokens, row: row) }
        }
    }

    @Test(
        "A record's key is missing in this process → the failure is unknownKey, and not the one for tampering (guarantee 3)"
    )
    func unknownKey() throws {
        let vault = try Fixture.vault()
        let row = try Fixture.digest(1)
        let sealed = try vault.seal([1, 2, 3], as: .tokens, row: row)
        let foreign = Sealed(keyID: "k9", envelope: sealed.envelope)
        #expect(throws: VaultFailure.unknownKey("k9")) { try vault.open(foreign, as: .tokens, row: row) }
        #expect(throws: VaultFailure.unknownKey("k9")) {
            try vault.sessionToken(keyID: "k9", salt: [1], proof: Secret("p"))
        }
    }

    @Test("One text is sealed twice → both nonce and ciphertext differ (SEC-47)", arguments: [0, 1, 500, 70_000])
    func freshNonces(length: Int) throws {
        let vault = try Fixture.vault()
        let row = try Fixture.digest(1)
        let text = [UInt8](repeating: 0x41, count: length)
        var nonces: Set<[UInt8]> = []
        for _ in 0..<200 {
            let sealed = try vault.seal(text, as: .tokens, row: row)
            #expect(sealed.envelope.count == length + 29)
            #expect(nonces.insert(Array(sealed.envelope[1..<13])).inserted)
            #expect(try vault.open(sealed, as: .tokens, row: row) == text)
        }
        #expect(vault.sealCounts == ["k1": 200])
        #expect(!vault.rotationAdvised)
        vault.noteSeals(elsewhere: ["k1": OpenSSLVault.rotationAdvisedAfter - 200, "gone": 1])
        #expect(vault.rotationAdvised && vault.sealCounts == ["k1": 200])
    }

    @Test("Indexes of different kinds are made from the same parts → their digests differ (SEC-110)")
    func purposes() throws {
        let vault = try Fixture.vault()
        let digests = IndexKind.allCases.map { vault.index($0, ["issuer", "subject"]) }
        #expect(Set(digests).count == IndexKind.allCases.count)
        #expect(!digests.contains(vault.digest(Array("issuersubject".utf8))))
    }

    @Test("A character moves from one part of an index to the next → the index's digest changes (SEC-68)")
    func lengthPrefixes() throws {
        let vault = try Fixture.vault()
        let variants = [["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], ["", "abc"], []]
        #expect(Set(variants.map { vault.index(.sid, $0) }).count == variants.count)
    }

    @Test(
        "Two session tokens are derived with another key, salt or proof → different; with the same → the same 43 characters"
    )
    func sessionTokens() throws {
        let ring = try KeyRing.parse(
            Fixture.file((id: "k1", key: Fixture.zeroTo31), (id: "k2", key: Fixture.otherKey)))
        let vault = try OpenSSLVault(ring: ring)
        let salt = [UInt8](repeating: 1, count: 32)
        let base = try vault.sessionToken(keyID: "k1", salt: salt, proof: Secret("p")).reveal()
        #expect(try vault.sessionToken(keyID: "k1", salt: salt, proof: Secret("p")).reveal() == base)
        #expect(Base64URL.isToken(base, length: 43...43))
        #expect(try vault.sessionToken(keyID: "k2", salt: salt, proof: Secret("p")).reveal() != base)
        #expect(try vault.sessionToken(keyID: "k1", salt: salt, proof: Secret("q")).reveal() != base)
        let otherSalt = [UInt8](repeating: 2, count: 32)
        #expect(try vault.sessionToken(keyID: "k1", salt: otherSalt, proof: Secret("p")).reveal() != base)
    }

    @Test(
        "A rotation under traffic → old rows open, lookups and tokens stay the same, new rows use the new key (SEC-49)")
    func rotationUnderTraffic() async throws {
        let ring = try KeyRing.parse(Fixture.file((id: "k1", key: Fixture.zeroTo31)))
        let vault = try OpenSSLVault(ring: ring)
        let row = try Fixture.digest(3)
        let old = try vault.seal([1, 2, 3], as: .tokens, row: row)
        let subject = vault.index(.subject, ["i", "s"])
        let token = try vault.sessionToken(keyID: "k1", salt: [1], proof: Secret("p")).reveal()
        try await withThrowingTaskGroup { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<500 {
                        #expect(try vault.open(old, as: .tokens, row: row) == [1, 2, 3])
                        let fresh = try vault.seal([9], as: .session, row: row)
                        #expect(try vault.open(fresh, as: .session, row: row) == [9])
                        #expect(vault.index(.subject, ["i", "s"]) == subject)
                    }
                }
            }
            group.addTask {
                var next = ring
                for _ in 0..<10 {
                    next = try next.rotated(now: WallTime(seconds: 1_795_000_000), random: SystemRandom.bytes)
                    try vault.replace(ring: next)
                }
            }
            try await group.waitForAll()
        }
        #expect(vault.currentKeyID != "k1")
        #expect(try vault.sessionToken(keyID: "k1", salt: [1], proof: Secret("p")).reveal() == token)
        #expect(vault.sealCounts.values.reduce(0, +) == 2001)
    }

    @Test("The vault gets a ring with another index key → refused, because lookups with that key would find no row")
    func indexKeyStays() throws {
        let vault = try Fixture.vault()
        let stranger = try KeyRing.parse(
            Fixture.file((id: "k1", key: Fixture.zeroTo31), index: Fixture.otherKey))
        #expect(throws: VaultFailure.unknownKey("index")) { try vault.replace(ring: stranger) }
        #expect(vault.index(.subject, ["https://issuer.example", "user-1"]).bytes.first == 0xC1)
    }

    @Test("A row's key was removed from the ring → the failure is unknownKey, and not the one for tampering (SEC-49)")
    func removedKey() throws {
        let vault = try Fixture.vault()
        let row = try Fixture.digest(1)
        let sealed = try vault.seal([1], as: .tokens, row: row)
        try vault.replace(ring: .parse(Fixture.file((id: "k2", key: Fixture.otherKey))))
        #expect(throws: VaultFailure.unknownKey("k1")) { try vault.open(sealed, as: .tokens, row: row) }
    }

    @Test("Random bytes are requested → the requested number of bytes, different each time; zero or fewer → none")
    func randomness() throws {
        let vault = try Fixture.vault()
        #expect(try vault.random(0) == [])
        #expect(try vault.random(-1) == [])
        #expect(try vault.random(33).count == 33)
        var seen: Set<[UInt8]> = []
        for _ in 0..<1000 { #expect(seen.insert(try vault.random(16)).inserted) }
        #expect(try vault.randomToken().reveal().count == 43)
    }
}
