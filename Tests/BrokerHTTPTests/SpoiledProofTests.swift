import Broker
import BrokerRelay
import BrokerTestSupport
import BrokerVault
import HTTPTypes
import Testing

@testable import BrokerHTTP

/// A copied cookie, with spoiled signatures under the public half of its key (guarantee 8).
@Suite("Spoiled signatures", .timeLimit(.minutes(1)))
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
        "They cost ten checks a minute, and then no right proof of that session from there is looked at; others are served"
    )
    func apps() async throws {
        let (victim, other) = (try await bound("canary-1"), try await bound("canary-2"))
        try await harness.live { (port) async throws in
            var seen: [String: Int] = [:]
            for _ in 0..<60 {
                seen[try await read(victim, from: Self.phoneAndThief, isSpoiled: true, port), default: 0] += 1
            }
            // A token comes back every six seconds.
            let checks = seen["401 signature"] ?? 0
            #expect((Self.limit...Self.limit + 2).contains(checks), "\(seen)")
            #expect(seen["429"] == 60 - checks, "\(seen)")
            for _ in 0..<30 {
                #expect(try await read(other, from: Self.phoneAndThief, isSpoiled: false, port) == "200")
            }
            #expect(try await read(victim, from: Self.elsewhere, isSpoiled: false, port) == "200")
        }
    }

    @Test("Through a proven backend they are charged to the session alone")
    func backends() async throws {
        let (victim, other) = (try await bound("canary-1"), try await bound("canary-2"))
        // One responder: each has a ledger of its own.
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
}
