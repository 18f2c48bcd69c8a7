import BrokerVault
import Testing

@testable import Broker

@Suite("Nonces and passes", .timeLimit(.minutes(1)))
struct ProofNonceTests {
    private let vault: OpenSSLVault
    /// The first second of a nonce's period.
    private let start = WallTime(seconds: 1_800_000_000)

    init() throws {
        vault = try OpenSSLVault(ring: KeyRing.generate(now: WallTime(seconds: 0), random: SystemRandom.bytes))
    }

    private func at(_ seconds: Int64) -> WallTime { start.advanced(by: .seconds(seconds)) }

    private func live(_ token: Digest) -> LiveSession {
        let sealed = Sealed(keyID: "", envelope: [])
        let row = SessionRow(
            tokenDigest: token, handle: SessionHandle(random: Array(repeating: 0, count: 16)), subject: token,
            subjectAndClient: token, sid: nil, provider: token, client: token, createdAt: start, lastUsedAt: start,
            idleExpiresAt: at(9999), expiresAt: at(9999), tokenExpiresAt: nil, refreshable: false, facts: sealed,
            tokens: nil)
        let facts = SessionFacts(
            provider: ProviderName(unchecked: "oidc"), client: ClientName(unchecked: "ios"), subject: "ana",
            identity: [], unverified: [], scope: [], device: nil, lifetimes: SessionLifetimes())
        return LiveSession(row: row, facts: facts, binding: nil)
    }

    @Test(
        "A nonce is from this or the previous five-minute period, or up to a minute in the future → accepted; otherwise, refused"
    )
    func life() {
        let first = ProofNonce.text(at: start, by: vault)
        let last = ProofNonce.text(at: at(299), by: vault)
        for (nonce, seconds, expected) in [
            (first, 0, false), (first, 299, false), (first, 300, true), (first, 599, true), (first, 600, nil),
            (last, 299, false), (last, 300, true), (last, 599, true), (last, 600, nil),
            (first, -1, false), (first, -60, false), (first, -61, nil), (last, 180, false), (last, 179, nil),
        ] as [(String, Int64, Bool?)] {
            #expect(ProofNonce(nonce, at: at(seconds), by: vault)?.isAging == expected, "\(seconds)")
        }
    }

    @Test(
        "A nonce is changed, or made with another key ring → refused; a nonce is made with the same key ring → accepted"
    )
    func foreign() throws {
        let other = try OpenSSLVault(ring: KeyRing.generate(now: WallTime(seconds: 0), random: SystemRandom.bytes))
        let good = ProofNonce.text(at: start, by: vault)
        #expect(ProofNonce(good, at: start, by: vault) != nil)
        #expect(ProofNonce(ProofNonce.text(at: start, by: other), at: start, by: vault) == nil)
        for index in good.utf8.indices {
            var changed = good
            changed.replaceSubrange(index...index, with: good[index] == "A" ? "B" : "A")
            #expect(ProofNonce(changed, at: start, by: vault) == nil)
        }
        for text in ["", good + "A", String(good.dropLast()), "\(good.dropLast())="] {
            #expect(ProofNonce(text, at: start, by: vault) == nil)
        }
    }

    @Test(
        "A nonce was issued before the process started → refused, because the process does not know which proofs were used then"
    )
    func restarted() throws {
        let before = ProofNonce.text(at: start, scope: "before", by: vault)
        #expect(ProofNonce(before, at: start, scope: "before", by: vault) != nil)
        for scope: NonceScope in ["after", ""] {
            #expect(ProofNonce(before, at: start, scope: scope, by: vault) == nil)
        }
    }

    @Test(
        "The clock shows a time before 1970 or in the far future → a nonce that is made at this time is accepted")
    func extremes() {
        for time in [WallTime(milliseconds: .min), WallTime(milliseconds: .max), WallTime(seconds: -1)] {
            #expect(ProofNonce(ProofNonce.text(at: time, by: vault), at: time, by: vault) != nil)
        }
    }

    @Test(
        "A pass has reached its end → the pass counts as missing; a pass was changed, or belongs to another session → invalid"
    )
    func passes() throws {
        let session = vault.digest(Array("session".utf8))
        let pass = SessionPass(expiresAt: at(600))
        let text = pass.text(of: session, by: vault)
        #expect(text.reveal().utf8.count == 32)
        #expect(try SessionPass(text, of: session, at: at(599), by: vault).expiresAt == at(600))
        #expect(throws: ProofRefusal.required) { try SessionPass(text, of: session, at: at(600), by: vault) }
        let other = vault.digest(Array("other".utf8))
        #expect(throws: ProofRefusal.pass) { try SessionPass(text, of: other, at: start, by: vault) }
        let longer = Base64URL.encode(
            (Base64URL.decode(text.reveal()) ?? []).enumerated().map { $0 == 7 ? $1 ^ 1 : $1 })
        for wrong in [longer, "", "a", String(text.reveal().dropLast()), text.reveal() + "A"] {
            #expect(throws: ProofRefusal.pass) { try SessionPass(Secret(wrong), of: session, at: start, by: vault) }
        }
        // If a pass belongs to another session and has also ended, the refusal is `pass`.
        #expect(throws: ProofRefusal.pass) { try SessionPass(text, of: other, at: at(9999), by: vault) }
    }

    @Test(
        "A session remembers its last good pass → the pass is accepted without another HMAC until its end, to the second"
    )
    func remembered() throws {
        let other = try OpenSSLVault(ring: KeyRing.generate(now: WallTime(seconds: 0), random: SystemRandom.bytes))
        let session = live(vault.digest(Array("session".utf8)))
        let text = SessionPass(expiresAt: at(600)).text(of: session.tokenDigest, by: vault)
        let later = SessionPass(expiresAt: at(601)).text(of: session.tokenDigest, by: vault)
        // Another vault computes different HMACs. So it accepts the pass only if the session remembers that this pass was good.
        #expect(throws: ProofRefusal.pass) { try session.pass(text, at: start, by: other) }
        #expect(throws: ProofRefusal.required) { try session.pass(text, at: at(600), by: vault) }
        #expect(throws: ProofRefusal.pass) { try session.pass(text, at: start, by: other) }
        #expect(try session.pass(text, at: start, by: vault).expiresAt == at(600))
        #expect(try session.pass(text, at: at(599), by: other).expiresAt == at(600))
        #expect(throws: ProofRefusal.required) { try session.pass(text, at: at(600), by: other) }
        for wrong in [later.reveal(), "", String(text.reveal().dropLast()), text.reveal() + "A"] {
            #expect(throws: ProofRefusal.pass) { try session.pass(Secret(wrong), at: start, by: other) }
        }
        // The session remembers only one pass. The next good pass replaces it.
        #expect(try session.pass(later, at: start, by: vault).expiresAt == at(601))
        #expect(throws: ProofRefusal.pass) { try session.pass(text, at: start, by: other) }
        // Each session remembers only its own last pass. So another session refuses this pass.
        let stranger = live(vault.digest(Array("other".utf8)))
        #expect(throws: ProofRefusal.pass) { try stranger.pass(text, at: start, by: vault) }
    }

    @Test("The sealing key is rotated → nonces and passes from before stay valid")
    func rotation() throws {
        let ring = try KeyRing.generate(now: WallTime(seconds: 0), random: SystemRandom.bytes)
        let before = try OpenSSLVault(ring: ring)
        let after = try OpenSSLVault(ring: try ring.rotated(now: start, random: SystemRandom.bytes))
        let session = before.digest(Array("session".utf8))
        let text = SessionPass(expiresAt: at(600)).text(of: session, by: before)
        #expect(try SessionPass(text, of: session, at: start, by: after).expiresAt == at(600))
        #expect(ProofNonce(ProofNonce.text(at: start, by: before), at: start, by: after) != nil)
    }
}
