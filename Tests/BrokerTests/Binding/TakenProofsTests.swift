import BrokerVault
import Testing

@testable import Broker

@Suite("The table of used proofs", .timeLimit(.minutes(1)))
struct TakenProofsTests {
    private let vault: OpenSSLVault
    private let start = WallTime(seconds: 1_800_000_000)

    init() throws {
        vault = try OpenSSLVault(ring: KeyRing.generate(now: WallTime(seconds: 0), random: SystemRandom.bytes))
    }

    private func nonce(_ seconds: Int64) throws -> ProofNonce {
        let time = start.advanced(by: .seconds(seconds))
        return try #require(ProofNonce(ProofNonce.text(at: time, by: vault), at: time, by: vault))
    }

    private func name(_ number: Int) -> Digest { vault.digest(Array("\(number)".utf8)) }

    private func take(_ number: Int, of key: Int = 0, nonce minute: Int64, at seconds: Int64, in table: TakenProofs)
        throws
        -> ProofRefusal?
    {
        let nonce = try nonce(minute)
        do throws(ProofRefusal) {
            try table.take(name(number), of: name(-key - 1), nonce: nonce, now: start.advanced(by: .seconds(seconds)))
            return nil
        } catch { return error }
    }

    @Test("More proofs of one key arrive than the table may hold for a key → only proofs of this key are refused (W4)")
    func ofKey() throws {
        let table = TakenProofs(maximumOfKey: 3, maximum: 100)
        for number in 0..<3 { #expect(try take(number, nonce: Int64(number) * 60, at: 180, in: table) == nil) }
        #expect(try take(3, nonce: 180, at: 180, in: table) == .limited)
        #expect(try take(3, of: 1, nonce: 180, at: 180, in: table) == nil)
        #expect(try take(0, nonce: 0, at: 180, in: table) == .replayed, "the table still has the first proof")
    }

    @Test("4097 proofs of one key arrive within ten minutes → 4096 are accepted, and the last one is refused")
    func mostOfKey() throws {
        let table = TakenProofs()
        for number in 0..<4096 { #expect(try take(number, nonce: 0, at: 0, in: table) == nil) }
        #expect(try take(4096, nonce: 0, at: 0, in: table) == .limited)
        #expect(table.count == 4096)
    }

    @Test(
        "The table of used proofs is full → it forgets proofs from earlier minutes, and refuses all nonces from these minutes"
    )
    func full() throws {
        let table = TakenProofs(maximumOfKey: 100, maximum: 4)
        for number in 0..<4 { #expect(try take(number, nonce: Int64(number) * 60, at: 240, in: table) == nil) }
        #expect(try take(4, nonce: 180, at: 240, in: table) == .nonce)
        #expect(try take(5, nonce: 240, at: 240, in: table) == nil)
        for number in 0..<4 { #expect(try take(number, nonce: Int64(number) * 60, at: 240, in: table) == .nonce) }
        for number in 6..<9 { #expect(try take(number, nonce: 240, at: 240, in: table) == nil) }
        #expect(
            try take(9, nonce: 240, at: 240, in: table) == .limited,
            "the table cannot forget proofs of the present minute")
        #expect(try take(5, nonce: 240, at: 240, in: table) == .replayed)
        #expect(try take(10, nonce: 300, at: 300, in: table) == nil)
        #expect(table.count == 1)
    }

    @Test(
        "A used proof's nonce has expired → the proof is forgotten, and no longer counts towards its key's limit (W2)")
    func forgotten() throws {
        let table = TakenProofs(maximumOfKey: 2, maximum: 100)
        #expect(try take(0, nonce: 0, at: 0, in: table) == nil)
        #expect(try take(1, nonce: 299, at: 299, in: table) == nil)
        #expect(try take(2, nonce: 599, at: 599, in: table) == .limited)
        #expect(try take(2, nonce: 600, at: 600, in: table) == nil)
        #expect(table.count == 1)
    }

    @Test(
        "A proof passes its check, and then its nonce expires before the proof is recorded as used → refused, even if it is new"
    )
    func late() throws {
        let table = TakenProofs()
        #expect(try take(0, nonce: 0, at: 0, in: table) == nil)
        #expect(try take(0, nonce: 0, at: 599, in: table) == .replayed)
        #expect(try take(0, nonce: 0, at: 600, in: table) == .nonce)
        #expect(try take(1, nonce: 299, at: 600, in: table) == .nonce)
        #expect(try take(2, nonce: 300, at: 600, in: table) == nil)
    }

    @Test("64 requests have the same proof at the same time → one of them is accepted")
    func race() async throws {
        let table = TakenProofs()
        let (nonce, name, now) = (try nonce(0), name(0), start)
        let taken = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<64 {
                group.addTask { (try? table.take(name, of: name, nonce: nonce, now: now)) != nil }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(taken == 1)
    }
}
