import BrokerTestSupport
import BrokerVault
import Testing

@testable import Broker

@Suite("Proofs for providers", .timeLimit(.minutes(1)))
struct ProofMakerTests {
    private func claims(_ proof: String) throws -> JSONObject {
        let segment = try #require(proof.split(separator: ".").dropFirst().first)
        return try JSONParser.parseObject(
            try #require(Base64URL.decode(segment)), maximumBytes: 4096, maximumDepth: 4)
    }

    @Test("A proof for a provider → the broker's own reader accepts its key, method, address, time, nonce and token")
    func proof() throws {
        let broker = try TestBroker()
        let pair = try broker.vault.proofKeyPair(seed: try broker.vault.random(32))
        let maker = ProofMaker(pair, broker.vault, broker.clock.clock)
        let text = try maker.proof(
            method: "POST", address: "https://as.example/token?tenant=a%2Fb", nonce: "n-1", token: Secret("at-1"))
        let proof = try DPoPProof([text])
        #expect(proof.key == pair.publicKey)
        #expect(broker.vault.isES256Signature(proof.signature, over: proof.signingInput, by: proof.key))
        #expect(proof.method == "POST" && proof.address == "https://as.example/token" && proof.nonce == "n-1")
        #expect(proof.tokenHash == Base64URL.encode(broker.vault.digest(Secret("at-1")).bytes))
        let claims = try claims(text)
        #expect(claims["iat"]?.integer == broker.clock.now.seconds)
        #expect(proof.identifier.utf8.count == 22)
        #expect(
            maker.thumbprint
                == Base64URL.encode(broker.vault.digest(Array(pair.publicKey.canonical.utf8)).bytes))
    }

    @Test(
        "A proof is made without nonce and token → it has only `jti`, `htm`, `htu` and `iat`, and a new `jti` each time"
    )
    func bare() throws {
        let broker = try TestBroker()
        let maker = ProofMaker(
            try broker.vault.proofKeyPair(seed: try broker.vault.random(32)), broker.vault, broker.clock.clock)
        var seen: Set<String> = []
        for _ in 0..<50 {
            let text = try maker.proof(method: "GET", address: "https://as.example/", nonce: nil)
            #expect(try claims(text).names == ["jti", "htm", "htu", "iat"])
            #expect(seen.insert(try DPoPProof([text]).identifier).inserted)
        }
    }
}

@Suite("Nonces for proofs", .timeLimit(.minutes(1)))
struct ProofNoncesTests {
    private func place(_ origin: String = "https://a", _ role: ProofNonces.Role = .authorization) -> ProofNonces.Place {
        ProofNonces.Place(
            provider: ProviderName(unchecked: "p"), client: ClientName(unchecked: "c"), origin: origin, role: role)
    }

    @Test("Several nonces arrive for one origin and role → the nonce that arrived last is kept")
    func newest() {
        let nonces = ProofNonces()
        #expect(nonces.newest(at: place()) == nil)
        nonces.note("n-1", at: place(), moment: .seconds(1))
        nonces.note("n-2", at: place(), moment: .seconds(2))
        #expect(nonces.newest(at: place()) == "n-2")
        #expect(nonces.newest(at: place("https://b")) == nil)
        #expect(nonces.newest(at: place("https://a", .resource)) == nil)
        #expect(nonces.isFresh(at: place(), within: .seconds(10), moment: .seconds(11)))
        #expect(!nonces.isFresh(at: place(), within: .seconds(10), moment: .seconds(12)))
        #expect(!nonces.isFresh(at: place("https://b"), within: .seconds(10), moment: .zero))
    }

    @Test("A fourth origin's nonce arrives, with room for three → the nonce that arrived longest ago is dropped")
    func bound() {
        let nonces = ProofNonces(maximum: 3)
        for origin in ["a", "b", "c"] { nonces.note("n", at: place(origin), moment: .zero) }
        nonces.note("again", at: place("a"), moment: .zero)
        nonces.note("n", at: place("d"), moment: .zero)
        #expect(nonces.count == 3)
        #expect(nonces.newest(at: place("a")) == "again")
        #expect(nonces.newest(at: place("b")) == nil)
    }

    @Test(
        "The value of a nonce field → a nonce if it is visible ASCII without quotes and backslashes, of at most 512 bytes"
    )
    func text() {
        #expect(ProofNonces.isNonce("eyJ7S_zG.eyJH0-Z.HX4w-7v"))
        for text in ["", "a b", "a\"b", "a\\b", "é", String(repeating: "n", count: 513)] {
            #expect(!ProofNonces.isNonce(text))
        }
    }
}

/// The rule for repeating a call because of its nonce, as a table.
@Suite("The number of times that a call with a proof is sent", .timeLimit(.minutes(1)))
struct NonceExchangeTests {
    @Test(
        "An answer brings a new nonce, but does not ask for it → the answer is accepted, and the call is not repeated")
    func takes() {
        var exchange = NonceExchange(nonce: "a")
        #expect(exchange.answered(asksForNonce: false, nonce: "b", newest: "a") == .take)
        #expect(exchange.sent == "a" && !exchange.isRepeated && !exchange.isOutdated)
    }

    @Test("A server asks for another nonce → the call is sent once more, and never a third time")
    func repeats() {
        var exchange = NonceExchange(nonce: nil)
        #expect(exchange.answered(asksForNonce: true, nonce: "a", newest: nil) == .sendAgain(nonce: "a"))
        #expect(exchange.sent == "a" && exchange.isRepeated)
        #expect(exchange.answered(asksForNonce: true, nonce: "b", newest: "a") == .giveUp)
    }

    @Test(
        "A server demands the nonce that the call had, or demands a nonce without sending one → the call is not repeated"
    )
    func sameAgain() {
        var exchange = NonceExchange(nonce: "a")
        #expect(exchange.answered(asksForNonce: true, nonce: "a", newest: "a") == .giveUp)
        exchange = NonceExchange(nonce: "a")
        #expect(exchange.answered(asksForNonce: true, nonce: nil, newest: "a") == .giveUp)
    }

    @Test(
        "A newer nonce arrives during a call, or a call without a nonce gets the first one → the call's proof is outdated"
    )
    func outdated() {
        for (sent, nonce, newest, isOutdated) in [
            ("a", "b", "a", false), ("a", nil, "a", false), ("a", "c", "b", true), ("a", nil, nil, false),
            (nil, nil, nil, false), (nil, "a", nil, true), (nil, nil, "a", true),
        ] as [(String?, String?, String?, Bool)] {
            var exchange = NonceExchange(nonce: sent)
            #expect(exchange.answered(asksForNonce: false, nonce: nonce, newest: newest) == .take)
            #expect(exchange.isOutdated == isOutdated, "\(sent ?? "-") \(nonce ?? "-") \(newest ?? "-")")
        }
    }
}
