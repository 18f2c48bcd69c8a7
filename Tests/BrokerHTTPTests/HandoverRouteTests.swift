import Broker
import BrokerTestSupport
import BrokerVault
import BrokerWire
import HTTPTypes
import Testing

@testable import BrokerHTTP

/// Hand-overs to a web view.
///
/// The address alone is useless. With the secret, a browser gets the session (guarantee 10).
@Suite(.timeLimit(.minutes(1)))
struct HandoverRouteTests {
    private static let secret = Secret(String(repeating: "s", count: 43))
    private static let own = "https://auth.example.com"
    private static let foreign = "https://shop.example.com"
    private static let billingCredential = "canary-billing-credential"
    private static let sameOrigin = FieldName.named("Sec-Fetch-Site")
    private static let origin = FieldName.named("Origin")

    private static func harness(
        allow: [BackendConfiguration.Scope]? = nil, _ policy: (inout ChildPolicy) -> Void = { _ in }
    ) throws -> HTTPHarness {
        var web = ChildPolicy(
            lifetimes: SessionLifetimes(idle: .seconds(1800), absolute: .seconds(28_800)),
            backends: [BackendName(unchecked: "orders"), BackendName(unchecked: "billing")])
        web.origins = [own, foreign]
        policy(&web)
        return try HTTPHarness(children: [.web: web, ChildKind(unchecked: "widget"): ChildPolicy()]) {
            configuration, vault in
            var orders = Backends.orders(vault, allow: allow)
            orders.origins = ProofOrigins([foreign].compactMap { ProofAddress($0) })
            // The backend `billing` may ask about the sessions of web pages. Its origin differs from the pages' origins, so it
            // cannot redeem their tickets.
            var billing = BackendConfiguration(
                name: BackendName(unchecked: "billing"), digest: vault.digest(Secret(billingCredential)),
                may: Set(BackendPermission.allCases))
            billing.origins = ProofOrigins([ProofAddress("https://billing.example.com")].compactMap { $0 })
            configuration.backends = [orders, billing]
        }
    }

    private func challenge(_ harness: HTTPHarness) -> String {
        Base64URL.encode(harness.vault.digest(Self.secret).bytes)
    }

    private func begin(
        _ harness: HTTPHarness, _ parent: SignedIn, origin: String = own, path: String = "/checkout?a=1"
    ) async throws -> Reply {
        try await harness.post(
            "/v1/session/handovers",
            #"{"origin": "\#(origin)", "path": "\#(path)", "challenge": "\#(challenge(harness))"}"#,
            harness.cookie(parent))
    }

    /// The path of a ticket for the broker's own origin.
    private func ticket(_ harness: HTTPHarness, _ parent: SignedIn) async throws -> String {
        let reply = try await begin(harness, parent)
        let url = try #require(reply.json?["url"]?.string)
        #expect(url.hasPrefix(Self.own + "/handover/"))
        return String(url.dropFirst(Self.own.count))
    }

    private func spend(
        _ harness: HTTPHarness, _ path: String, _ cookies: String = "__Host-coatcheck-handover=\(secret.reveal())",
        _ more: HTTPFields = [sameOrigin: "same-origin"]
    ) async throws -> Reply {
        var fields = more
        fields[.cookie] = cookies
        fields[.contentType] = "application/x-www-form-urlencoded"
        return try await harness.send(.post, path, fields, body: "")
    }

    private func webToken(_ reply: Reply) throws -> String {
        let set = reply.headers[values: .setCookie].first { $0.hasPrefix("__Host-coatcheck-web=") }
        return String(try #require(set).dropFirst("__Host-coatcheck-web=".count).prefix(43))
    }

    @Test(
        "A request for a ticket has faults → each is named; the client has no pages → refused; it is the ninth in a minute → 429"
    )
    func tickets() async throws {
        let harness = try Self.harness()
        let parent = try await harness.signIn()
        let bodies = [
            ("{}", ["/origin required", "/challenge required"]),
            (#"{"origin": "https://shop.example.com/", "challenge": "\#(challenge(harness))"}"#, ["/origin malformed"]),
            (#"{"origin": "https://evil.example", "challenge": "\#(challenge(harness))"}"#, ["/origin not_allowed"]),
            (
                #"{"origin": "\#(Self.own)", "path": "//evil.example", "challenge": "\#(challenge(harness))"}"#,
                ["/path malformed"]
            ),
            (
                #"{"origin": "\#(Self.own)", "path": "/\\evil.example", "challenge": "\#(challenge(harness))"}"#,
                ["/path malformed"]
            ),
            (
                #"{"origin": "\#(Self.own)", "path": "/a#b", "challenge": "\#(challenge(harness))"}"#,
                ["/path malformed"]
            ),
            (#"{"origin": "\#(Self.own)", "path": "a", "challenge": "\#(challenge(harness))"}"#, ["/path malformed"]),
            (#"{"origin": "\#(Self.own)", "challenge": "short"}"#, ["/challenge too_short"]),
            (
                #"{"origin": "\#(Self.own)", "challenge": "\#(challenge(harness).dropLast())"}"#,
                ["/challenge too_short"]
            ),
        ]
        for (body, faults) in bodies {
            let reply = try await harness.post("/v1/session/handovers", body, harness.cookie(parent))
            #expect(reply.status == 400 && reply.faults == faults, "\(body): \(reply.body)")
        }
        let without = try HTTPHarness(children: [ChildKind(unchecked: "widget"): ChildPolicy()])
        let childless = try await without.signIn()
        #expect(try await begin(without, childless).code == "client_not_allowed")
        for _ in 0..<HandOver.tickets { #expect(try await begin(harness, parent).status == 201) }
        #expect(try await begin(harness, parent).code == "rate_limited")
        let other = try await harness.signIn(code: "canary-other")
        #expect(try await begin(harness, other).status == 201)
    }

    @Test(
        "The hand-over page is opened, or its form lacks the secret → the user is not revealed, and the ticket stays valid"
    )
    func addressAlone() async throws {
        let harness = try Self.harness()
        let parent = try await harness.signIn()
        let path = try await ticket(harness, parent)
        for method in [HTTPRequest.Method.get, .get, .head] {
            let page = try await harness.send(method, path)
            #expect(page.status == 200 && page.headers[.setCookie] == nil)
            #expect(page.headers[.cacheControl] == "no-store")
            #expect(page.header("Referrer-Policy") == "strict-origin")
            for word in ["Ana", "user-1", "ses_", String(path.suffix(43))] { #expect(!page.body.contains(word)) }
        }
        // Requests that are refused: of a scanner that sends POST without the secret, of a thief with another secret, and of a
        // victim who follows an attacker's link.
        let refusals: [(String, HTTPFields, String)] = [
            ("", [Self.sameOrigin: "same-origin"], "400 verifier_mismatch"),
            (
                "__Host-coatcheck-handover=\(String(repeating: "t", count: 43))", [Self.sameOrigin: "same-origin"],
                "400 verifier_mismatch"
            ),
            ("__Host-coatcheck-handover=\(Self.secret.reveal())", [Self.sameOrigin: "cross-site"], "403 cross_origin"),
            ("__Host-coatcheck-handover=\(Self.secret.reveal())", [Self.sameOrigin: "none"], "403 cross_origin"),
            ("__Host-coatcheck-handover=\(Self.secret.reveal())", [Self.origin: "null"], "403 cross_origin"),
            (
                "__Host-coatcheck-handover=\(Self.secret.reveal())", [Self.origin: "https://evil.example"],
                "403 cross_origin"
            ),
            ("__Host-coatcheck-handover=\(Self.secret.reveal())", [:], "403 cross_origin"),
        ]
        for (cookies, fields, wanted) in refusals {
            let reply = try await spend(harness, path, cookies, fields)
            #expect(reply.body.contains(wanted), "\(fields): \(reply.status) \(reply.body)")
            #expect(reply.headers[.setCookie] == nil)
            #expect(reply.headers[.contentType]?.hasPrefix("text/html") == true)
        }
        let asked = try await spend(
            harness, path, "", [Self.sameOrigin: "same-origin", .accept: "application/problem+json"])
        #expect(asked.code == "verifier_mismatch")
        // The ticket is still unspent after these refusals.
        let done = try await spend(harness, path)
        #expect(done.status == 303 && done.headers[.location] == Self.own + "/checkout?a=1")
    }

    @Test(
        "A hand-over secret is malformed, although its digest is the ticket's → `verifier_mismatch`, and no cookie is set"
    )
    func shortSecret() async throws {
        let harness = try Self.harness()
        let parent = try await harness.signIn()
        let live = try await harness.useCases.resumeSession.resume(parent.token)
        for secret in [
            "4711", String(repeating: "s", count: 42), String(repeating: "s", count: 129),
            String(repeating: "+", count: 43),
        ] {
            let order = HandoverOrder(origin: Self.own, path: "/", challenge: harness.vault.digest(Secret(secret)))
            let url = try await harness.useCases.handOver.begin(order, of: live).url.reveal()
            let reply = try await spend(
                harness, String(url.dropFirst(Self.own.count)), "__Host-coatcheck-handover=\(secret)")
            #expect(reply.status == 400 && reply.body.contains("verifier_mismatch"), "\(secret)")
            #expect(reply.headers[.setCookie] == nil)
        }
    }

    @Test(
        "Ten forms without the ticket's secret → 400; eight wrong secrets → 400 five times, then 429; the right secret → 303"
    )
    func guesses() async throws {
        var web = ChildPolicy()
        web.origins = [Self.own]
        let harness = try HTTPHarness(children: [.web: web]) { configuration, _ in
            configuration.limits.charges = ChargeLimits(wrongTokensPerMinute: 5)
        }
        let parent = try await harness.signIn()
        let path = try await ticket(harness, parent)
        try await harness.live { port in
            func post(_ secret: String?) async throws -> String {
                let cookie = secret.map { "Cookie: __Host-coatcheck-handover=\($0)\r\n" } ?? ""
                let answer = try await RawClient(port: port).exchange(
                    "POST \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nSec-Fetch-Site: same-origin\r\n"
                        + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n\(cookie)\r\n")
                return String(answer.dropFirst("HTTP/1.1 ".count).prefix(3))
            }
            for _ in 0..<10 { #expect(try await post(nil) == "400") }
            var told: [String] = []
            for number in 0..<8 { told.append(try await post(String(repeating: "\(number)", count: 43))) }
            #expect(told.prefix(5) == ["400", "400", "400", "400", "400"] && Set(told.suffix(3)) == ["429"], "\(told)")
            #expect(try await post(Self.secret.reveal()) == "303")
        }
    }

    @Test("The hand-over page's form arrives with two origins → 403, although one of them is the broker's")
    func twoOrigins() async throws {
        let harness = try Self.harness()
        let path = try await ticket(harness, try await harness.signIn())
        // The check of origins exempts requests with an `Authorization` field, so this route has to check the origin itself.
        for second in [Self.own, "https://evil.example"] {
            var fields: HTTPFields = [Self.origin: Self.own, .authorization: "Basic eDp5"]
            fields.append(HTTPField(name: Self.origin, value: second))
            let reply = try await spend(harness, path, "__Host-coatcheck-handover=\(Self.secret.reveal())", fields)
            #expect(reply.status == 403 && reply.headers[.setCookie] == nil, "\(reply.body)")
        }
        #expect(try await spend(harness, path).status == 303)
    }

    @Test("The hand-over page's script and style → have the digests in the page's content security policy")
    func policy() throws {
        let vault = try Self.harness().vault
        for (text, digest) in [
            (HandoverPage.script, HandoverPage.scriptDigest), (HandoverPage.style, HandoverPage.styleDigest),
        ] {
            let made = Base64URL.encode(vault.digest(Array(text.utf8)).bytes)
            #expect(made.replacing("-", with: "+").replacing("_", with: "/") + "=" == digest)
        }
    }

    @Test(
        "A hand-over with the right secret → the browser gets a web child with its own cookie; a repeat → the same child"
    )
    func spent() async throws {
        let harness = try Self.harness()
        let parent = try await harness.signIn()
        let path = try await ticket(harness, parent)
        let done = try await spend(harness, path)
        let again = try await spend(
            harness, path, "__Host-coatcheck-handover=\(Self.secret.reveal())", [Self.origin: Self.own])
        let token = try webToken(done)
        #expect(try webToken(again) == token)
        let set = done.headers[values: .setCookie]
        #expect(
            set.contains {
                $0.hasPrefix("__Host-coatcheck-web=\(token); Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=28")
            })
        #expect(set.contains { $0.hasPrefix("__Host-coatcheck-handover=; ") && $0.contains("; Max-Age=0; Expires=") })
        let read = try await harness.send(.get, "/v1/session", [.cookie: "__Host-coatcheck-web=\(token)"])
        #expect(read.json?["kind"]?.string == "web" && read.json?["parent"]?.string == parent.session.handle.text)
        for route in ["/v1/session/handovers", "/v1/session/children"] {
            let closed = try await harness.post(route, "{}", [.cookie: "__Host-coatcheck-web=\(token)"])
            #expect(closed.code == "client_not_allowed")
        }
        // The page's token opens nothing as the app's cookie or as a bearer token. The app's token opens nothing as the page's
        // cookie.
        let parentsToken = parent.token.reveal()
        for fields: HTTPFields in [
            [.cookie: "__Host-coatcheck=\(token)"], [.authorization: "Bearer \(token)"],
            [.cookie: "__Host-coatcheck-web=\(parentsToken)"],
        ] {
            #expect(try await harness.send(.get, "/v1/session", fields).code == "session_required")
        }
        // If a request has both cookies, the app's and the page's, the broker uses the app's cookie.
        let both = "__Host-coatcheck=\(parentsToken); __Host-coatcheck-web=\(token)"
        let seen = try await harness.send(.get, "/v1/session", [.cookie: both])
        #expect(seen.json?["handle"]?.string == parent.session.handle.text)
        var gate = Backends.proof
        gate[.authorization] = "Bearer \(token)"
        let bare = try await harness.send(.get, "/v1/forward-auth", gate)
        #expect(bare.status == 401 && bare.code == "session_required")
        gate[.authorization] = nil
        gate[Backends.session] = token
        // A backend may present the token of a page's session in its own field, because a backend that redeems a ticket gets
        // such a token.
        #expect(try await harness.send(.get, "/v1/forward-auth", gate).header("X-Auth-Kind") == "web")
        gate[Backends.session] = nil
        gate[.cookie] = "__Host-coatcheck-web=\(token)"
        #expect(try await harness.send(.get, "/v1/forward-auth", gate).header("X-Auth-Kind") == "web")
        // The log-out clears the page's own cookie. After that, the spent ticket no longer returns the ended session.
        let out = try await harness.send(.delete, "/v1/session", [.cookie: "__Host-coatcheck-web=\(token)"])
        #expect(out.status == 204)
        #expect(out.headers[values: .setCookie].allSatisfy { $0.hasPrefix("__Host-coatcheck-web=;") })
        let ended = try await harness.send(.get, "/v1/session", [.cookie: "__Host-coatcheck-web=\(token)"])
        #expect(ended.code == "session_ended")
        #expect(ended.headers[values: .setCookie].allSatisfy { $0.hasPrefix("__Host-coatcheck-web=;") })
        #expect(try await spend(harness, path).body.contains("410 handover_expired"))
        #expect(try await harness.send(.get, "/v1/session", harness.cookie(parent)).status == 200)
    }

    @Test(
        "A web view has another user's session → its hand-over gets 409; it has a session of the same user → this one is replaced"
    )
    func otherSession() async throws {
        let harness = try Self.harness()
        let parent = try await harness.signIn()
        harness.provider.change { $0.subject = "user-2" }
        let stranger = try await harness.signIn(code: "canary-other")
        let path = try await ticket(harness, parent)
        let secret = "__Host-coatcheck-handover=\(Self.secret.reveal())"
        for name in ["__Host-coatcheck", "__Host-coatcheck-web"] where name == "__Host-coatcheck" {
            let refused = try await spend(harness, path, "\(secret); \(name)=\(stranger.token.reveal())")
            #expect(refused.body.contains("409 other_session"))
            #expect(refused.headers[.setCookie] == nil)
        }
        let first = try webToken(try await spend(harness, path))
        let second = try webToken(
            try await spend(harness, try await ticket(harness, parent), "\(secret); __Host-coatcheck-web=\(first)"))
        #expect(first != second)
        let old = try await harness.send(.get, "/v1/session", [.cookie: "__Host-coatcheck-web=\(first)"])
        #expect(old.json?["reason"]?.string == "replaced")
        let others = try await spend(
            harness, try await ticket(harness, stranger), "\(secret); __Host-coatcheck-web=\(second)")
        #expect(others.body.contains("409 other_session"))
        try await harness.useCases.endSession.logOut(parent.token)
        let free = try await spend(
            harness, try await ticket(harness, stranger), "\(secret); __Host-coatcheck-web=\(second)")
        #expect(free.status == 303)
    }

    @Test(
        "A browser got its page for a ticket, and sends the ticket again → the answer has the same session, which stays alive"
    )
    func spentAgain() async throws {
        let harness = try Self.harness()
        let path = try await ticket(harness, try await harness.signIn())
        let token = try webToken(try await spend(harness, path))
        let page = "__Host-coatcheck-web=\(token)"
        let again = try await spend(harness, path, "__Host-coatcheck-handover=\(Self.secret.reveal()); \(page)")
        #expect(try webToken(again) == token)
        #expect(try await harness.send(.get, "/v1/session", [.cookie: page]).status == 200)
    }

    @Test("A ticket is older than a minute, or its session has ended → the hand-over page and its form answer 410")
    func late() async throws {
        let time = TestClock()
        var web = ChildPolicy()
        web.origins = [Self.own]
        let harness = try HTTPHarness(time: time, children: [.web: web])
        let parent = try await harness.signIn()
        let path = try await ticket(harness, parent)
        let gone = try await ticket(harness, parent)
        try await harness.useCases.endSession.logOut(parent.token)
        #expect(try await harness.send(.get, gone).status == 410)
        #expect(try await spend(harness, gone).status == 410)
        let other = try await harness.signIn(code: "canary-2")
        let late = try await ticket(harness, other)
        time.advance(.seconds(61))
        for path in [path, late, "/handover/" + String(repeating: "x", count: 43), "/handover/x"] {
            #expect(try await harness.send(.get, path).status == 410)
            #expect(try await spend(harness, path).status == 410)
        }
    }

    @Test(
        "A ticket is for a page of another site → only this site's backend can redeem it, and a repeat gets the same session"
    )
    func redeemed() async throws {
        let harness = try Self.harness()
        let parent = try await harness.signIn()
        let reply = try await begin(harness, parent, origin: Self.foreign)
        let url = try #require(reply.json?["url"]?.string)
        #expect(url.hasPrefix("https://shop.example.com/checkout?a=1&handover="))
        let ticket = String(url.suffix(43))
        func redeem(_ ticket: String, _ verifier: String, _ fields: HTTPFields = Backends.proof) async throws -> Reply {
            try await harness.post(
                "/v1/handovers/redeem", #"{"ticket": "\#(ticket)", "verifier": "\#(verifier)"}"#, fields)
        }
        #expect(try await redeem(ticket, Self.secret.reveal(), [:]).code == "backend_unauthorized")
        #expect(try await redeem(ticket, String(repeating: "t", count: 43)).code == "verifier_mismatch")
        let short = try await redeem(String(ticket.dropLast()), Self.secret.reveal())
        #expect(short.status == 400 && short.faults.first?.hasPrefix("/ticket ") == true, "\(short.body)")
        // A ticket for a backend's page is useless at the broker's page. A ticket for the broker's page is useless to a
        // backend.
        #expect(try await spend(harness, "/handover/\(ticket)").status == 410)
        let ours = try await self.ticket(harness, parent)
        #expect(try await redeem(String(ours.suffix(43)), Self.secret.reveal()).code == "handover_expired")
        let billing: HTTPFields = [Backends.header: Self.billingCredential]
        #expect(try await redeem(ticket, Self.secret.reveal(), billing).code == "handover_expired")
        let made = try await redeem(ticket, Self.secret.reveal())
        #expect(made.status == 200 && made.json?["kind"]?.string == "web", "\(made.body)")
        let token = try #require(made.json?["session_token"]?.string)
        #expect(try await redeem(ticket, Self.secret.reveal()).json?["session_token"]?.string == token)
        let told = try await harness.form("/v1/introspect", "token=\(token)", Backends.proof)
        #expect(told.json?["active"] == .bool(true) && told.json?["kind"]?.string == "web")
        let bearer = try await harness.send(.get, "/v1/session", [.authorization: "Bearer \(token)"])
        #expect(bearer.code == "session_required")
    }

    @Test(
        "A backend redeems a ticket of a client that it may not ask about → `handover_expired`; of its own client → a session"
    )
    func clients() async throws {
        for (client, status) in [("desk", 410), ("ios", 200)] {
            let scope = BackendConfiguration.Scope(
                provider: ProviderName(unchecked: "as"), clients: [ClientName(unchecked: client)])
            let harness = try Self.harness(allow: [scope])
            let reply = try await begin(harness, try await harness.signIn(), origin: Self.foreign)
            let ticket = try #require(reply.json?["url"]?.string).suffix(43)
            let made = try await harness.post(
                "/v1/handovers/redeem", #"{"ticket": "\#(ticket)", "verifier": "\#(Self.secret.reveal())"}"#,
                Backends.proof)
            #expect(made.status == status && made.code == (status == 410 ? "handover_expired" : nil), "\(made.body)")
        }
    }

    @Test(
        "A session has the most children allowed → a new child ends the web child that was unused longest; the app's own stay"
    )
    func room() async throws {
        let harness = try Self.harness()
        let parent = try await harness.signIn()
        let live = try await harness.useCases.resumeSession.resume(parent.token)
        func widget(_ number: Int) async throws -> SignedIn {
            try await harness.useCases.makeChild.make(
                ChildOrder(kind: ChildKind(unchecked: "widget"), name: "w\(number)"), of: live)
        }
        func reason(_ token: String) async throws -> String? {
            try await harness.send(.get, "/v1/session", [.cookie: "__Host-coatcheck-web=\(token)"]).json?["reason"]?
                .string
        }
        let first = try webToken(try await spend(harness, try await ticket(harness, parent)))
        for number in 1..<MakeChild.places { _ = try await widget(number) }
        let second = try webToken(try await spend(harness, try await ticket(harness, parent)))
        #expect(try await reason(first) == "session_limit")
        let last = try await widget(MakeChild.places)
        #expect(try await reason(second) == "session_limit")
        await #expect(throws: BrokerProblem.self) { try await widget(99) }
        #expect(try await spend(harness, try await ticket(harness, parent)).status == 409)
        #expect(try await harness.useCases.resumeSession.resume(last.token).row.endedAt == nil)
    }
}
