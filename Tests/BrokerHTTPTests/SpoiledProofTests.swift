import Broker
import BrokerRelay
import BrokerTestSupport
import BrokerVault
import HTTPTypes
import Testing

@testable import BrokerHTTP

/// A thief has copied a cookie and knows the public key.
///
/// The thief sends proofs with invalid signatures (guarantee 8).
@Suite("Proofs with invalid signatures", .timeLimit(.minutes(1)))
struct SpoiledProofTests {
    private static let limit = 10
    private static let phoneAndThief = "198.51.100.7"
    private static let elsewhere = "198.51.100.8"
    private let harness: HTTPHarness
    private let phone = SigningPhone()

    init() throws {
        harness = try HTTPHarness(binding: .enforce) { configuration, vault in
            configuration.trustedProxies = [IPNetwork("127.0.0.0/8")].compactMap { $0 }
            configuration.limits.charges.wrongTokensPerMinute = Self.limit
            configuration.backends = [Backends.orders(vault)]
        }
    }

    private func proof(_ method: String, _ path: String, token: Secret? = nil) throws -> String {
        try phone.proof(
            method: method, address: "https://auth.example.com" + path,
            identifier: Base64URL.encode(try harness.vault.random(9)),
            nonce: harness.useCases.proofNonce(), token: token)
    }

    private func spoiled(_ proof: String) -> String {
        proof.split(separator: ".").dropLast().joined(separator: ".") + "."
            + Base64URL.encode(Array(repeating: 1, count: 64))
    }

    private func evidence(_ path: String) throws -> PresentedEvidence {
        PresentedEvidence(
            proofs: [try proof("POST", path)], target: ProofTarget(method: "POST", address: .own(path: path)))
    }

    /// Signs in and returns the token of a session that belongs to the phone's key.
    private func bound(_ code: String) async throws -> Secret {
        var start = StartLoginInput(provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"))
        start.evidence = try evidence("/v1/logins")
        let login = try await harness.useCases.startLogin.start(start)
        var input = ForwardCodeInput()
        input.callbackURL = "com.example.app:/cb?code=\(code)&state=\(login.state.reveal())"
        input.loginToken = login.loginToken
        input.evidence = try evidence("/v1/sessions")
        guard case .signedIn(let signedIn) = try await harness.useCases.forwardCode.forward(input) else {
            throw BrokerProblem(.internalError)
        }
        return signedIn.token
    }

    /// Reads a session with a proof; returns status and code.
    private func read(_ token: Secret, from address: String, isSpoiled: Bool, _ port: Int) async throws -> String {
        let proof = try proof("GET", "/v1/session", token: token)
        let answer = try await RawClient(port: port).exchange(
            "GET /v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-For: \(address)\r\n"
                + "X-Forwarded-Proto: https\r\nCookie: __Host-coatcheck=\(token.reveal())\r\n"
                + "DPoP: \(isSpoiled ? spoiled(proof) : proof)\r\n\r\n")
        return String(answer.dropFirst(9).prefix(3)) + (answer.contains(#""reason":"signature""#) ? " signature" : "")
    }

    @Test(
        "An address sends 60 invalid proofs for one session → ten are checked, then 429; other sessions and addresses are served"
    )
    func apps() async throws {
        let (victim, other) = (try await bound("canary-1"), try await bound("canary-2"))
        try await harness.live { (port) async throws in
            var seen: [String: Int] = [:]
            for _ in 0..<60 {
                seen[try await read(victim, from: Self.phoneAndThief, isSpoiled: true, port), default: 0] += 1
            }
            // The limit permits ten checks at once, and one more for every six seconds that the test takes.
            let checks = seen["401 signature"] ?? 0
            #expect((Self.limit...Self.limit + 2).contains(checks), "\(seen)")
            #expect(seen["429"] == 60 - checks, "\(seen)")
            for _ in 0..<30 {
                #expect(try await read(other, from: Self.phoneAndThief, isSpoiled: false, port) == "200")
            }
            #expect(try await read(victim, from: Self.elsewhere, isSpoiled: false, port) == "200")
        }
    }

    @Test(
        "Verified bodies, or another NAT64 client's, fill a session's memory → a body with an unverified proof is still read"
    )
    func bodies() async throws {
        let token = try await bound("canary-1")
        let row = try await harness.useCases.resumeSession.resume(harness.vault.digest(token)).row
        let (load, body) = (harness.load, #"{"kind":"widget","name":"home"}"#)
        try await harness.live { (port) async throws in
            func ask(isSpoiled: Bool, from address: String = Self.elsewhere) async throws -> String {
                let good = try proof("POST", "/v1/session/children", token: token)
                let answer = try await RawClient(port: port).exchange(
                    "POST /v1/session/children HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                        + "X-Forwarded-For: \(address)\r\nX-Forwarded-Proto: https\r\n"
                        + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n"
                        + "Cookie: __Host-coatcheck=\(token.reveal())\r\n"
                        + "DPoP: \(isSpoiled ? spoiled(good) : good)\r\n\r\n\(body)")
                return String(answer.dropFirst(9).prefix(3))
            }
            #expect(try await ask(isSpoiled: true) == "401")
            #expect(try await ask(isSpoiled: false) == "403")
            // Bodies of the phone use all memory that bodies of one session may have.
            var places: [HeldBodies.Place] = []
            while let place = try? load.bodies.take(65_536, for: row) { places.append(place) }
            #expect(try await ask(isSpoiled: true) == "401")
            // Bodies from 64:ff9b::1 use all memory that this address may have. A client with another IPv4 address behind the
            // same NAT64 translator has a limit of its own.
            let network = HeldBodies.Owner(session: row, address: try #require(IPAddress("64:ff9b::1")).limitKey)
            while let place = try? load.bodies.take(65_536, of: 65_536, for: network) { places.append(place) }
            #expect(try await ask(isSpoiled: true, from: "64:ff9b::c633:6409") == "401")
            for place in places { load.bodies.giveBack(place) }
            #expect(load.bodies.entries == 0)
        }
    }

    @Test(
        "A backend presents 60 invalid proofs for one session → ten are checked, then 429; calls for other sessions are served"
    )
    func backends() async throws {
        let (victim, other) = (try await bound("canary-1"), try await bound("canary-2"))
        // All requests go to one responder, because each responder has its own ledger.
        let responder = harness.responder
        func ask(_ token: Secret, isSpoiled: Bool) async throws -> Reply {
            let good = try proof("GET", "/orders", token: token)
            let proof = isSpoiled ? spoiled(good) : good
            return try await HTTPHarness.send(
                to: responder, .post, "/v1/introspect",
                [Backends.header: Backends.credential, .contentType: "application/x-www-form-urlencoded"],
                body: "token=\(token.reveal())&dpop=\(proof)&htm=GET&htu=https%3A%2F%2Fauth.example.com%2Forders")
        }
        var seen: [Int: Int] = [:]
        for _ in 0..<60 { seen[try await ask(victim, isSpoiled: true).status, default: 0] += 1 }
        #expect((Self.limit...Self.limit + 2).contains(seen[200] ?? 0), "\(seen)")
        #expect(seen[429] == 60 - (seen[200] ?? 0), "\(seen)")
        #expect(try await ask(victim, isSpoiled: false).status == 429)
        #expect(try await ask(other, isSpoiled: false).json?["active"]?.bool == true)
    }

    @Test("Fifteen invalid presence proofs, to register a key or for a call → only ten signatures are checked")
    func presence() async throws {
        let now = harness.clock.now().seconds
        harness.provider.change { $0.signIn = SignInFacts(authenticatedAt: now) }
        let (token, user, path) = (try await bound("canary-1"), SigningPhone(), "/v1/session/presence-key")
        let session = harness.vault.digest(token)
        func evidence(isSpoiled: Bool, _ ledger: ChargeLedger) throws -> PresentedEvidence {
            let good = try user.proof(
                method: "PUT", address: "https://auth.example.com" + path,
                identifier: Base64URL.encode(try harness.vault.random(9)), nonce: harness.useCases.proofNonce(),
                token: token)
            return PresentedEvidence(
                proofs: [isSpoiled ? spoiled(good) : good],
                target: ProofTarget(method: "PUT", address: .own(path: path)),
                charge: Charge(IPAddress(v4: 7), in: ledger).ofProofs)
        }
        func register(_ evidence: PresentedEvidence) async throws(BrokerProblem) {
            let live = try await harness.useCases.resumeSession.resume(session)
            _ = try await harness.useCases.registerPresenceKey.register(evidence, for: live)
        }
        func call(_ evidence: PresentedEvidence) async throws(BrokerProblem) {
            let live = try await harness.useCases.resumeSession.resume(session)
            try await harness.useCases.presenceCheck.judge(evidence, of: live).take()
        }
        func newLedger() -> ChargeLedger {
            ChargeLedger(ChargeLimits(wrongTokensPerMinute: Self.limit), monotonic: harness.clock.monotonic)
        }
        /// Sends fifteen invalid proofs. Returns the number of signatures that the broker checked.
        func looked(_ show: (PresentedEvidence) async throws(BrokerProblem) -> Void) async throws -> Int {
            let ledger = newLedger()
            var looked = 0
            for _ in 0..<15 {
                let evidence = try evidence(isSpoiled: true, ledger)
                do throws(BrokerProblem) { try await show(evidence) } catch {
                    if error.code == .presenceInvalid { looked += 1 } else { #expect(error.code == .rateLimited) }
                }
            }
            return looked
        }
        #expect(try await looked(register) == Self.limit)
        try await register(evidence(isSpoiled: false, newLedger()))
        #expect(try await looked(register) == Self.limit)
        #expect(try await looked(call) == Self.limit)
        try await call(evidence(isSpoiled: false, newLedger()))
    }
}
