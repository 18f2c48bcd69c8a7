import Broker
import BrokerRelay
import BrokerTestSupport
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("Presence keys, over HTTP", .timeLimit(.minutes(1)))
struct PresenceRouteTests {
    private static let path = "/v1/session/presence-key"
    private static let field = FieldName.named("Coatcheck-Presence")
    private static let dpop = FieldName.named("DPoP")
    private let time = TestClock()
    private let harness: HTTPHarness
    /// The phone's session key, and the key that signs only after the user has confirmed.
    private let phone = SigningPhone()
    private let user = SigningPhone()

    init() throws {
        var harness = try HTTPHarness(time: time, binding: .enforce) { configuration, vault in
            var backend = Backends.orders(vault)
            backend.originalRequest = true
            configuration.backends = [backend]
        }
        var demand = StepUpDemand()
        demand.presence = true
        var upstream = try UpstreamSettings(
            name: UpstreamName(unchecked: "shop"), baseURL: "http://127.0.0.1:1",
            provider: ProviderName(unchecked: "as"),
            allow: ["ANY /**"])
        upstream.require = [try UpstreamRequirement("ANY /pay", demand)]
        harness.relay = Relay(upstreams: [upstream])
        self.harness = harness
    }

    private var now: Int64 { time.now.seconds }

    private func proof(
        _ key: SigningPhone, _ method: String, _ path: String, _ identifier: String, token: Secret? = nil,
        nonce: String? = nil
    ) throws -> String {
        try key.proof(
            method: method, address: "https://auth.example.com" + path, identifier: identifier,
            nonce: nonce ?? harness.useCases.proofNonce(), token: token)
    }

    private func evidence(_ path: String, _ identifier: String) throws -> PresentedEvidence {
        PresentedEvidence(
            proofs: [try proof(phone, "POST", path, identifier)],
            target: ProofTarget(method: "POST", address: .own(path: path)))
    }

    /// Signs in and returns the token of a session that belongs to the phone's key.
    private func signIn(_ at: Int64?, _ name: String = "a") async throws -> Secret {
        harness.provider.change { $0.signIn = SignInFacts(authenticatedAt: at) }
        var start = StartLoginInput(provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"))
        start.evidence = try evidence("/v1/logins", "start" + name)
        let login = try await harness.useCases.startLogin.start(start)
        var input = ForwardCodeInput()
        input.callbackURL = "com.example.app:/cb?code=canary-\(name)&state=\(login.state.reveal())"
        input.loginToken = login.loginToken
        input.evidence = try evidence("/v1/sessions", "forward" + name)
        guard case .signedIn(let signedIn) = try await harness.useCases.forwardCode.forward(input) else {
            throw BrokerProblem(.internalError)
        }
        return signedIn.token
    }

    private func send(
        _ method: HTTPRequest.Method, _ path: String, _ token: Secret, _ name: String, presence: String?
    ) async throws -> Reply {
        var fields: HTTPFields = [
            .cookie: "__Host-coatcheck=\(token.reveal())",
            Self.dpop: try proof(phone, method.rawValue, path, "silent" + name, token: token),
        ]
        if let presence { fields[Self.field] = presence }
        return try await harness.send(method, path, fields)
    }

    private func register(_ token: Secret, _ name: String, by key: SigningPhone? = nil) async throws -> Reply {
        try await send(
            .put, Self.path, token, name,
            presence: try proof(key ?? user, "PUT", Self.path, "user" + name, token: token))
    }

    private func told(_ reply: Reply) -> String {
        [String(reply.status), reply.code, reply.json?["reason"]?.string].compactMap { $0 }.joined(separator: " ")
    }

    @Test(
        "A presence key is registered with an old sign-in, no proof, the session's own key or another request's proof → 401"
    )
    func refused() async throws {
        for (at, name) in [(nil, "x"), (now - 661, "y")] as [(Int64?, String)] {
            let token = try await signIn(at, name)
            let reply = try await register(token, name)
            #expect(told(reply) == "401 step_up_required")
            #expect(reply.json?.value(at: "/step_up/max_age")?.string == nil && reply.body.contains(#""max_age":600"#))
            #expect(reply.header("WWW-Authenticate")?.contains("insufficient_user_authentication") == true)
        }
        let token = try await signIn(now)
        let missing = try await send(.put, Self.path, token, "1", presence: nil)
        #expect(told(missing) == "401 presence_required")
        #expect(missing.header("Coatcheck-Reason") == nil)
        #expect(missing.header("DPoP-Nonce") != nil && missing.header("Coatcheck-Code") == "presence_required")
        #expect(missing.header("WWW-Authenticate") == #"DPoP error="presence_required", algs="ES256""#)
        #expect(told(try await register(token, "2", by: phone)) == "401 presence_invalid key")
        for (presence, reason) in [
            (try proof(user, "POST", Self.path, "u1", token: token), "method"),
            (try proof(user, "PUT", "/v1/session", "u2", token: token), "address"),
            (try proof(user, "PUT", Self.path, "u3", token: Secret("other")), "token"),
            (try proof(user, "PUT", Self.path, "u4"), "token"),
            (try proof(user, "PUT", Self.path, "u5", token: token, nonce: "AAAAAAAAAAAAAAAA"), "nonce"),
            (String(try proof(user, "PUT", Self.path, "u6", token: token).dropLast(4)) + "AAAA", "signature"),
            ("x.y", "malformed"),
        ] {
            let reply = try await send(.put, Self.path, token, reason + presence.suffix(3), presence: presence)
            #expect(told(reply) == "401 presence_invalid \(reason)")
            #expect(reply.header("Coatcheck-Reason") == reason)
            #expect(reply.header("DPoP-Nonce") != nil && reply.headers[.setCookie] == nil)
        }
        // A pass instead of the session key's proof is not enough.
        let live = try await harness.useCases.resumeSession.resume(harness.vault.digest(token))
        let pass = try harness.useCases.grantPass.grant(to: live)
        let passing = try await harness.send(
            .put, Self.path,
            [
                .cookie: "__Host-coatcheck=\(token.reveal()); __Host-coatcheck-pass=\(pass.text.reveal())",
                Self.field: try proof(user, "PUT", Self.path, "u7", token: token),
            ])
        #expect(told(passing) == "401 proof_required")
        #expect(try await harness.useCases.resumeSession.resume(harness.vault.digest(token)).row.presence == nil)
    }

    @Test("A session has a presence key → another key is refused, and the same key is accepted at any time")
    func registered() async throws {
        let token = try await signIn(now)
        let before = try await send(.get, "/v1/session", token, "0", presence: nil)
        let answer = try await register(token, "1")
        #expect(told(answer) == "200" && answer.header("Cache-Control") == "no-store")
        let session = try await send(.get, "/v1/session", token, "2", presence: nil)
        #expect(session.json?.value(at: "/presence/jkt")?.string == user.thumbprint)
        #expect(answer.body == session.body)
        #expect(before.body.contains(#""version":1,"#) && session.body.contains(#""version":2,"#))
        #expect(told(try await register(token, "3", by: SigningPhone())) == "401 presence_invalid key")
        time.advance(.seconds(3600))
        #expect(told(try await register(token, "4")) == "200")
        let other = try await register(token, "5", by: SigningPhone())
        #expect(told(other) == "401 presence_invalid key")
        #expect(other.body.contains("another presence key already"))
    }

    @Test(
        "A relayed call needs presence → a wrong proof is refused; the upstream is unreachable → the proof can be used again"
    )
    func relayed() async throws {
        let token = try await signIn(now)
        let path = "/v1/relay/shop/pay"
        func call(_ name: String, _ presence: String?) async throws -> Reply {
            try await send(.post, path, token, name, presence: presence)
        }
        let unregistered = try await call("1", try proof(user, "POST", path, "p1", token: token))
        #expect(told(unregistered) == "401 presence_required")
        _ = try await register(token, "2")
        let asked = try await call("3", nil)
        #expect(told(asked) == "401 presence_required")
        #expect(asked.body.contains(#""step_up":{"presence":true}"#) && asked.header("DPoP-Nonce") != nil)
        #expect(asked.header("WWW-Authenticate")?.contains("insufficient_user_authentication") == false)
        for (presence, reason) in [
            (try proof(phone, "POST", path, "p2", token: token), "key"),
            (try proof(user, "GET", path, "p3", token: token), "method"),
            (try proof(user, "POST", path + "/x", "p4", token: token), "address"),
            (String(try proof(user, "POST", path, "p5", token: token).dropLast(4)) + "AAAA", "signature"),
        ] { #expect(told(try await call("r" + reason, presence)) == "401 presence_invalid \(reason)") }
        // The upstream is down, so the proof is released and can be used again.
        let good = try proof(user, "POST", path, "p6", token: token)
        #expect(told(try await call("4", good)) == "502 upstream_error")
        #expect(told(try await call("5", good)) == "502 upstream_error")
        // Three of the 30 starts in a minute are used: one by the registration, and two by the released proofs, because each of
        // these wrote a row.
        for number in 0..<27 {
            let proof = try proof(user, "POST", path, "m\(number)", token: token)
            #expect(told(try await call("m\(number)", proof)) == "502 upstream_error")
        }
        let limited = try await call("l", try proof(user, "POST", path, "l", token: token))
        #expect(told(limited) == "429 rate_limited")
        #expect(limited.header("Retry-After") != nil)
    }

    @Test(
        "Forward-auth demands presence → a proof for the original request works once; that request's fields are missing → 403"
    )
    func forwarded() async throws {
        let token = try await signIn(now)
        _ = try await register(token, "1")
        let uri = "/v1/forward-auth?presence=1"
        func ask(_ query: String, _ name: String, _ presence: String?, says: Bool = true) async throws -> Reply {
            var fields = Backends.proof
            fields[.cookie] = "__Host-coatcheck=\(token.reveal())"
            let live = try await harness.useCases.resumeSession.resume(harness.vault.digest(token))
            let pass = try harness.useCases.grantPass.grant(to: live)
            fields[FieldName.named("Coatcheck-Pass")] = pass.text.reveal()
            if let presence { fields[Self.field] = presence }
            if says {
                fields[FieldName.named("X-Original-Method")] = "POST"
                fields[FieldName.named("X-Original-URL")] = "https://auth.example.com/orders"
            }
            return try await harness.send(.get, query, fields)
        }
        #expect(told(try await ask("/v1/forward-auth?presence=2", "1", nil)) == "403 backend_not_allowed")
        #expect(told(try await ask(uri, "2", nil, says: false)) == "403 backend_not_allowed")
        #expect(told(try await ask(uri, "3", nil)) == "401 presence_required")
        let elsewhere = try proof(user, "POST", "/v1/forward-auth", "f1", token: token)
        #expect(told(try await ask(uri, "4", elsewhere)) == "401 presence_invalid address")
        let good = try proof(user, "POST", "/orders", "f2", token: token)
        #expect(told(try await ask(uri, "5", good)) == "200")
        #expect(told(try await ask(uri, "6", good)) == "401 presence_invalid replayed")
        #expect(told(try await ask("/v1/forward-auth", "7", nil)) == "200")
    }

    @Test("A session is unbound → it can register no presence key, and a call that needs presence is refused at once")
    func unbound() async throws {
        var harness = try HTTPHarness()
        harness.relay = self.harness.relay
        let signedIn = try await harness.signIn()
        #expect(told(try await harness.send(.put, Self.path, harness.cookie(signedIn))) == "403 client_not_allowed")
        let reply = try await harness.send(.post, "/v1/relay/shop/pay", harness.cookie(signedIn))
        #expect(told(reply) == "403 step_up_failed")
        #expect(reply.body.contains(#""required":{"presence":true}"#))
    }
}
