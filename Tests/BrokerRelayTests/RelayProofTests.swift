import Broker
import BrokerRelay
import BrokerWire
import HTTPTypes
import NIOCore
import Synchronization
import Testing

/// Makes dummy signatures with dummy keys, because these tests examine only the content of a proof.
private final class PaperSigner: ProofSigner {
    private let count = Mutex<UInt8>(0)
    private let isAway: Bool

    init(isAway: Bool = false) { self.isAway = isAway }

    func proofKeyPair(seed: [UInt8]) throws(VaultFailure) -> ProofKeyPair {
        guard let key = ProofKey(x: [UInt8](repeating: 1, count: 32), y: [UInt8](repeating: 2, count: 32)) else {
            throw .unavailable
        }
        return ProofKeyPair(publicKey: key, scalar: Secret("scalar"))
    }

    func es256Signature(over message: [UInt8], by key: ProofKeyPair) throws(VaultFailure) -> [UInt8] {
        if isAway { throw .unavailable }
        return [UInt8](repeating: 7, count: 64)
    }

    func digest(_ bytes: [UInt8]) -> Digest {
        guard let digest = Digest([UInt8](repeating: bytes.last ?? 0, count: 32)) else { preconditionFailure("32") }
        return digest
    }

    func random(_ count: Int) throws(VaultFailure) -> [UInt8] {
        let number = self.count.withLock { count in
            count += 1
            return count
        }
        return [UInt8](repeating: number, count: count)
    }
}

/// A counter of the tokens that the relay asked for.
private final class Asked: Sendable {
    private let number = Mutex(0)

    var count: Int { number.withLock { $0 } }

    func next() -> Int {
        number.withLock { number in
            number += 1
            return number
        }
    }
}

@Suite("Relayed calls with bound tokens (RFC 9449 section 7)", .timeLimit(.minutes(2)))
struct RelayProofTests {
    private static let clock = BrokerClock(
        now: { WallTime(seconds: 1_800_000_000) }, monotonic: { .seconds(1) }, sleep: { try await Task.sleep(for: $0) })

    private func claims(_ request: ScriptedUpstream.Received) throws -> JSONObject {
        let proofs = request.values("dpop")
        #expect(proofs.count == 1)
        let segment = try #require(proofs.first?.split(separator: ".").dropFirst().first)
        return try JSONParser.parseObject(
            try #require(Base64URL.decode(segment)), maximumBytes: 4096, maximumDepth: 4)
    }

    /// Calls with a bound token, and provides a fresh token if the relay requests one.
    private func call(
        _ fixture: RelayFixture, _ method: HTTPRequest.Method = .get, _ target: String = "/a",
        body: UpstreamRequest.Body = .none, _ asked: Asked, _ presences: Presences = Presences()
    ) async throws -> RelayResponse {
        let key = try PaperSigner().proofKeyPair(seed: [])
        return try await fixture.relay.call(
            try fixture.request(method, target, headers: [:], body: body), session: fixture.session,
            signIns: fixture.signIns,
            presence: { _ throws(BrokerProblem) in try presences.judge() },
            token: { (_, _, _) throws(BrokerProblem) in
                let number = asked.next()
                return AccessToken(Secret("at-\(number)"), .dpop, key: key)
            })
    }

    private func run(
        _ script: @escaping @Sendable (ScriptedConnection) async throws -> Void,
        proof: ProofPresentation = ProofPresentation(), require: [UpstreamRequirement] = [],
        nonces: ProofNonces = ProofNonces(), _ body: (RelayFixture, ScriptedUpstream) async throws -> Void
    ) async throws {
        try await ScriptedUpstream.run(script) { upstream in
            let proofs = RelayProofs(PaperSigner(), Self.clock, nonces)
            try await RelayFixture.run(at: upstream.url + "/base", proof: proof, proofs: proofs, require: require) {
                fixture in
                try await body(fixture, upstream)
            }
        }
    }

    @Test(
        "A token is bound → the call has the configured scheme, and a DPoP proof for the upstream's address without the query"
    )
    func goesOut() async throws {
        var elsewhere = ProofPresentation()
        elsewhere.scheme = .bearer
        elsewhere.publicBase = try UpstreamBase("https://api.example.com/public")
        for (proof, scheme, address) in [
            (ProofPresentation(), "DPoP", nil), (elsewhere, "Bearer", "https://api.example.com/public/a/b"),
        ] {
            try await run(answeringOK, proof: proof) { fixture, upstream in
                let asked = Asked()
                #expect(try await call(fixture, .post, "/a/b?x=1", asked).status == .ok)
                let request = try #require(upstream.received.first)
                #expect(request.values("authorization") == ["\(scheme) at-1"])
                let claims = try claims(request)
                #expect(claims["htm"]?.string == "POST")
                #expect(claims["htu"]?.string == address ?? upstream.url + "/base/a/b")
                #expect(claims["ath"]?.string != nil && claims["nonce"] == nil)
            }
        }
    }

    /// Demands a nonce on every connection, and brings a new nonce with each answer.
    private static func demanding() -> @Sendable (ScriptedConnection) async throws -> Void {
        let answers = Asked()
        return { connection in
            while let request = try await connection.request() {
                let proof = request.values("dpop").first ?? ""
                let claims = proof.split(separator: ".").dropFirst().first.flatMap { Base64URL.decode($0) } ?? []
                let isGood = String(decoding: claims, as: UTF8.self).contains("\"n-\(answers.count)\"")
                let nonce = "DPoP-Nonce: n-\(answers.next())"
                if isGood {
                    try await connection.answer(fields: [nonce])
                } else {
                    let challenge = "WWW-Authenticate: Basic, DPoP Error = \"USE_dpop_nonce\""
                    try await connection.answer("401 Unauthorized", fields: [nonce, challenge], body: "no")
                }
            }
        }
    }

    @Test("An upstream asks for a nonce → the call is repeated one time, and later calls have the newest nonce")
    func nonces() async throws {
        try await run(Self.demanding()) { fixture, upstream in
            let asked = Asked()
            for expected in [2, 3, 4] {
                let response = try await call(fixture, .put, "/a", body: .whole(ByteBuffer(string: "x")), asked)
                #expect(response.status == .ok && response.headers[.dpopNonce] == nil)
                _ = try await response.body.text()
                #expect(upstream.received.count == expected)
            }
            let identifiers = try upstream.received.map { try claims($0)["jti"]?.string }
            #expect(Set(identifiers).count == 4)
            #expect(upstream.received.map(\.bodySize) == [1, 1, 1, 1])
        }
    }

    @Test(
        "An upstream and a token endpoint have the same origin → proofs for the upstream have only the upstream's nonces"
    )
    func sharedOrigin() async throws {
        let nonces = ProofNonces()
        try await run(
            { connection in
                while try await connection.request() != nil {
                    try await connection.answer(fields: ["DPoP-Nonce: of-upstream"])
                }
            }, nonces: nonces
        ) { fixture, upstream in
            let facts = fixture.session.facts
            let tokenEndpoint = ProofNonces.Place(
                provider: facts.provider, client: facts.client, origin: upstream.url, role: .authorization)
            nonces.note("of-token-endpoint", at: tokenEndpoint, moment: .zero)
            for _ in 0..<2 { _ = try await call(fixture, .get, "/a", Asked()).body.text() }
            #expect(try upstream.received.map { try claims($0)["nonce"]?.string } == [nil, "of-upstream"])
            #expect(nonces.newest(at: tokenEndpoint) == "of-token-endpoint")
        }
    }

    @Test(
        "An upstream's nonce challenge has a short body → its connection serves the repeat; a long body → the connection closes"
    )
    func challengeBodies() async throws {
        for (size, connections) in [(4096, 1), (1_000_000, 2)] {
            let answers = Asked()
            try await run({ connection in
                while try await connection.request() != nil {
                    guard answers.next() == 1 else {
                        try await connection.answer()
                        continue
                    }
                    try await connection.answer(
                        "401 Unauthorized",
                        fields: ["DPoP-Nonce: n-1", "WWW-Authenticate: DPoP error=\"use_dpop_nonce\""],
                        body: String(repeating: "x", count: size))
                }
            }) { (fixture, upstream) async throws in
                #expect(try await call(fixture, .get, "/a", Asked()).status == .ok)
                #expect(upstream.received.count == 2 && upstream.opened == connections, "\(size)")
            }
        }
    }

    @Test("An upstream closes a kept connection at a call → a GET is repeated with a new proof, a POST is not")
    func keptConnections() async throws {
        for (method, sent) in [(HTTPRequest.Method.get, 3), (.post, 2)] {
            try await run({ connection in
                if try await connection.request() != nil { try await connection.answer() }
                // The upstream reads the second request and closes the connection without an answer.
                _ = try await connection.request()
            }) { fixture, upstream in
                _ = try await call(fixture, .get, "/a", Asked()).body.text()
                do {
                    let response = try await call(fixture, method, "/a", Asked())
                    #expect(response.status == .ok && method == .get)
                } catch let problem as BrokerProblem {
                    #expect(problem.code == .upstreamError && method == .post)
                }
                let identifiers = try upstream.received.map { try claims($0)["jti"]?.string }
                #expect(identifiers.count == sent && Set(identifiers).count == sent)
            }
        }
    }

    @Test(
        "The signing of a call's DPoP proof fails → the call is not sent, and its proof of presence may be used again")
    func unsigned() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            let proofs = RelayProofs(PaperSigner(isAway: true), Self.clock, ProofNonces())
            let (presences, entries) = (Presences(), try Presences.entries("ANY /**"))
            try await RelayFixture.run(at: upstream.url, proofs: proofs, require: entries) { fixture in
                await #expect(throws: BrokerProblem.self) {
                    try await call(fixture, .post, "/a", Asked(), presences)
                }
            }
            #expect(presences.counts == Presences.Counts(judged: 1, taken: 1, givenBack: 1))
            #expect(upstream.received.isEmpty)
        }
    }

    @Test(
        "An upstream asks for a nonce after it got a streamed body → the app gets `upstream_nonce` with a time to wait"
    )
    func streamed() async throws {
        let presences = Presences()
        try await run(Self.demanding(), require: try Presences.entries("ANY /**")) { fixture, upstream in
            let asked = Asked()
            func streamed() -> UpstreamRequest.Body {
                let source = ChunkSource(chunk: ByteBuffer(repeating: 0x61, count: 10_000), count: 10)
                return .stream(UpstreamRequest.Stream(source), length: 100_000)
            }
            do {
                _ = try await call(fixture, .put, "/a", body: streamed(), asked, presences)
                Issue.record("the call was answered instead of refused")
            } catch let problem as BrokerProblem {
                #expect(problem.code == .upstreamNonce && problem.retryAfter == .milliseconds(500))
                #expect(
                    presences.counts.givenBack == 1, "the upstream refused the call, so its presence proof is released")
            }
            #expect(upstream.received.count == 1)
        }
    }

    @Test(
        "An upstream asks for a new nonce at each attempt → after two attempts `upstream_nonce`, and no refresh of the token"
    )
    func endless() async throws {
        try await run(
            { connection in
                var number = 0
                while try await connection.request() != nil {
                    number += 1
                    try await connection.answer(
                        "401 Unauthorized",
                        fields: ["DPoP-Nonce: n-\(number)", "WWW-Authenticate: DPoP error=\"use_dpop_nonce\""],
                        body: "no")
                }
            }, require: try Presences.entries("ANY /**")
        ) { fixture, upstream in
            let (asked, presences) = (Asked(), Presences())
            do {
                _ = try await call(fixture, .get, "/a", body: .none, asked, presences)
                Issue.record("the call was answered instead of refused")
            } catch let problem as BrokerProblem { #expect(problem.code == .upstreamNonce) }
            #expect(presences.counts.givenBack == 1)
            #expect(upstream.received.count == 2 && asked.count == 1)
        }
    }

    @Test(
        "A call's first attempt is lost, and the upstream asks the repeat for a nonce → the proof of presence counts as used"
    )
    func lostBeforeNonce() async throws {
        let connections = Asked()
        try await run(
            { connection in
                guard connections.next() == 1 else {
                    let challenge = "WWW-Authenticate: DPoP error=\"use_dpop_nonce\""
                    while try await connection.request() != nil {
                        try await connection.answer("401 Unauthorized", fields: [challenge], body: "no")
                    }
                    return
                }
                if try await connection.request() != nil { try await connection.answer() }
                // The upstream reads the second request and closes the connection. So the relay cannot know whether the
                // upstream has handled this request.
                _ = try await connection.request()
            }, require: try Presences.entries("ANY /**")
        ) { fixture, upstream in
            _ = try await call(fixture, .get, "/a", Asked()).body.text()
            let presences = Presences()
            do {
                _ = try await call(fixture, .get, "/a", Asked(), presences)
                Issue.record("the call was answered instead of refused")
            } catch let problem as BrokerProblem { #expect(problem.code == .upstreamNonce) }
            #expect(upstream.received.count == 3)
            #expect(presences.counts == Presences.Counts(judged: 1, taken: 1))
        }
    }

    @Test(
        "An upstream's 401 refuses a call's DPoP proof → passed on; a 401 refuses the token → one refresh and one repeat"
    )
    func refused() async throws {
        for (error, calls) in [("invalid_dpop_proof", 1), ("invalid_token", 2)] {
            try await run({ connection in
                while try await connection.request() != nil {
                    try await connection.answer(
                        "401 Unauthorized", fields: ["WWW-Authenticate: DPoP error=\"\(error)\""], body: "no")
                }
            }) { fixture, upstream in
                let asked = Asked()
                let response = try await call(fixture, .get, "/a", body: .none, asked)
                #expect(response.status == .unauthorized)
                _ = try await response.body.text()
                #expect(upstream.received.count == calls && asked.count == calls)
            }
        }
    }

    @Test("The relay has no signer of DPoP proofs → a bound token is not sent")
    func noSigner() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url) { fixture in
                let asked = Asked()
                do {
                    _ = try await call(fixture, .get, "/a", body: .none, asked)
                    Issue.record("the call was answered instead of refused")
                } catch let problem as BrokerProblem { #expect(problem.code == .upstreamNotAllowed) }
            }
            #expect(upstream.received.isEmpty)
        }
    }
}

extension HTTPField.Name {
    fileprivate static let dpopNonce = HTTPField.Name("DPoP-Nonce") ?? .accept
}
