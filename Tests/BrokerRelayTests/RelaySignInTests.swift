import Broker
import BrokerWire
import HTTPTypes
import Testing

@testable import BrokerRelay

@Suite("Calls that need a sign-in (RFC 9470)", .timeLimit(.minutes(2)))
struct RelaySignInTests {
    private static let mfa = StepUpDemand(contextClasses: ["mfa"])

    @Test(
        "Several `require` entries match → the call needs the shortest age and an `acr` that all accept; none match → no demand"
    )
    func entries() throws {
        let entries = [
            try UpstreamRequirement("POST,PUT /payments/**", StepUpDemand(contextClasses: ["mfa", "phr"])),
            try UpstreamRequirement("ANY /payments/*", StepUpDemand(contextClasses: ["phr"], maximumAge: 300)),
            try UpstreamRequirement("ANY /payments/large", StepUpDemand(maximumAge: 60)),
        ]
        func demand(_ method: String, _ path: String) throws -> StepUpDemand? {
            entries.demand(method: method, path: try CanonicalPath(Substring(path)))
        }
        #expect(try demand("GET", "/accounts") == nil)
        #expect(try demand("GET", "/payments/1/lines") == nil)
        #expect(try demand("POST", "/payments/1/lines") == StepUpDemand(contextClasses: ["mfa", "phr"]))
        #expect(try demand("POST", "/payments/1") == StepUpDemand(contextClasses: ["phr"], maximumAge: 300))
        #expect(try demand("GET", "/payments/large") == StepUpDemand(contextClasses: ["phr"], maximumAge: 60))
        #expect(!StepUpDemand(contextClasses: ["a"]).joined(with: StepUpDemand(contextClasses: ["b"])).isPossible)
    }

    @Test(
        "A call is spelled differently from a `require` entry, but servers could treat both alike → the entry's demand applies",
        arguments: [
            ("POST /payments/**", "POST", "/payments", true), ("POST /payments/**", "POST", "/payments/", true),
            ("POST /payments/**", "POST", "/Payments/1", true), ("POST /payments/**", "POST", "/PAYMENTS", true),
            ("POST /payments/**", "POST", "/p%61yments/1/", true), ("GET /x", "HEAD", "/x", true),
            ("GET /x", "GET", "/x/", true), ("GET /x/", "GET", "/X", true), ("PUT,GET /x", "HEAD", "/x", true),
            ("ANY /x", "get", "/x", true), ("POST /x", "post", "/x", true), ("ANY /a/*", "PUT", "/A/b/", true),
            ("ANY /**", "GET", "/", true), ("ANY /", "GET", "/", true), ("ANY /a/*/**", "GET", "/a/b", true),
            ("ANY /%C3%A9", "GET", "/%c3%a9", true),
            ("POST /payments/*/transfer:confirm", "POST", "/payments/1/transfer%3Aconfirm", true),
            ("POST /payments/*/transfer%3Aconfirm", "POST", "/payments/1/Transfer:confirm", true),
            ("ANY /a@b", "GET", "/a%40B", true), ("ANY /a%20(b)", "GET", "/A%20%28b%29", true),
            // Some file systems drop spaces and dots at the end of a file name, and some servers also at its start.
            ("POST /pay/**", "POST", "/pay%20/x", true), ("POST /pay/**", "POST", "/pay./x", true),
            ("POST /pay/**", "POST", "/%20pay%20.%20/x", true), ("POST /pay/**", "POST", "/pay+/x", true),
            ("POST /pay/**", "POST", "/pay%C2%A0/x", true), ("POST /pay/x", "POST", "/pay/x%20", true),
            ("POST /a%20b", "POST", "/a+b", true), ("POST /a+b", "POST", "/a%20b", true),
            // A server that decodes the path before it splits off the query treats an encoded `?` as the path's end.
            ("POST /pay", "POST", "/pay%3Fx", true), ("POST /pay", "POST", "/pay/%3F/x/y", true),
            ("POST /pay/*", "POST", "/pay/1%3f2/3", true), ("POST /pay", "POST", "/p%3Fay", false),
            // Some routers read the part after a dot in the last segment as a format.
            ("POST /pay", "POST", "/pay.json", true), ("POST /pay", "POST", "/Pay.a.b", true),
            ("POST /pay/*/confirm", "POST", "/pay/1/confirm.xml", true), ("POST /pay/x", "POST", "/pay.json/x", false),
            ("POST /pay", "POST", "/payjson", false), ("POST /pay.json", "POST", "/pay", false),
            // Invisible characters, and letters of other alphabets that some servers treat like ASCII letters.
            ("POST /pay/**", "POST", "/%EF%BD%90ay/x", true), ("POST /sink", "POST", "/%C5%BFin%E2%84%AA", true),
            ("POST /pay/**", "POST", "/pa%E2%80%8By/x", true), ("POST /pay/**", "POST", "/pa%C2%ADy/x", true),
            ("ANY /%C3%A9", "GET", "/e%CC%81", true), ("ANY /%C3%89", "GET", "/%C3%A9", true),
            ("ANY /stra%C3%9Fe", "GET", "/STRASSE", true), ("ANY /pay", "GET", "/p%C3%A4y", false),
            ("ANY /100%25", "GET", "/100%25", true), ("ANY /a:b", "GET", "/a%2Ab", false),
            ("POST /payments/**", "POST", "/payments1", false), ("POST /payments/**", "POST", "/payment", false),
            ("POST /payments/**", "GET", "/payments", false), ("HEAD /x", "GET", "/x", false),
            ("POST /x", "HEAD", "/x", false), ("ANY /a/*", "GET", "/a", false), ("ANY /a/*", "GET", "/a/", false),
            ("ANY /a/*", "GET", "/a/b/c", false), ("ANY /", "GET", "/a", false), ("ANY /x/y", "GET", "/x", false),
        ])
    func edges(text: String, method: String, path: String, holds: Bool) async throws {
        let entry = [try UpstreamRequirement(text, Self.mfa)]
        let found = entry.demand(method: method, path: try CanonicalPath(Substring(path)))
        #expect(found == (holds ? Self.mfa : nil))
    }

    @Test(
        "A `require` entry matches a call that the `allow` list allows → reported as reachable; it matches none → as unreachable",
        arguments: [
            ("POST /a/**", true), ("POST /a", false), ("PUT /a/b", false), ("ANY /*/b", true), ("POST /a/b/c", true),
            ("POST /*", false), ("POST /x/**", false), ("GET /g", true), ("GET /g/", true), ("HEAD /g", false),
            ("GET /G/**", true), ("POST /A/B", true), ("ANY /**", true),
        ])
    func reach(text: String, isReached: Bool) throws {
        let allow = AllowList([try AllowEntry("POST /a/*/**"), try AllowEntry("POST /a/b"), try AllowEntry("GET /g")])
        #expect(try UpstreamRequirement(text, Self.mfa).isReached(by: allow) == isReached)
        let encoded = AllowList([try AllowEntry("GET /x%3Ay")])
        #expect(try UpstreamRequirement("GET /X:y", Self.mfa).isReached(by: encoded))
        #expect(try !UpstreamRequirement("GET /X:z", Self.mfa).isReached(by: encoded))
    }

    @Test("A call needs a stronger sign-in than the session's → it gets no token, and the upstream is not called")
    func refused() async throws {
        let signIns = SignIns(.stepUpRequired)
        try await RelayFixture.run(
            at: "http://127.0.0.1:9", require: [try UpstreamRequirement("POST /pay/**", Self.mfa)], signIns: signIns
        ) { (fixture) async throws in
            #expect(try await fixture.problem(.post, "/pay/1").code == .stepUpRequired)
            // The next call has the same path in another spelling.
            #expect(try await fixture.problem(.post, "/p%61y/1").code == .stepUpRequired)
            #expect(fixture.tokens.given == 0)
            #expect(signIns.required == [Self.mfa, Self.mfa])
            #expect(try await fixture.problem(.get, "/pay/1").code != .stepUpRequired)
        }
    }

    private static let challenge =
        #"Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="5""#

    private func answering(_ challenge: String) -> @Sendable (ScriptedConnection) async throws -> Void {
        { connection in
            while try await connection.request() != nil {
                try await connection.answer(
                    "401 Unauthorized", fields: ["WWW-Authenticate: \(challenge)"], body: "no")
            }
        }
    }

    @Test(
        "An upstream's 401 asks for a better sign-in → the broker answers with its own challenge, without a forced refresh"
    )
    func passed() async throws {
        let signIns = SignIns(.stepUpRequired)
        try await ScriptedUpstream.run(answering(Self.challenge)) { upstream in
            try await RelayFixture.run(at: upstream.url, signIns: signIns) { (fixture) async throws in
                #expect(try await fixture.problem(.get, "/x").code == .stepUpRequired)
                #expect(fixture.tokens.given == 1 && fixture.tokens.forced == 0)
                #expect(signIns.challenges.map(\.demand) == [StepUpDemand(contextClasses: ["mfa"], maximumAge: 5)])
            }
        }
    }

    @Test(
        "An upstream refuses the newest token, and asks for a sign-in that the session has → `step_up_failed`, no forced refresh"
    )
    func named() async throws {
        let signIns = SignIns()
        try await ScriptedUpstream.run(answering(Self.challenge)) { upstream in
            try await RelayFixture.run(at: upstream.url, signIns: signIns) { (fixture) async throws in
                #expect(try await fixture.problem(.get, "/x").code == .stepUpFailed)
                #expect(fixture.tokens.given == 2 && fixture.tokens.forced == 0)
                #expect(signIns.challenges.map(\.isLast) == [false, true])
            }
            #expect(upstream.received.count == 1)
        }
    }

    /// Makes a call.
    ///
    /// An access token is named after the subject of the session for which the relay requests the token.
    private func call(_ fixture: RelayFixture, _ method: HTTPRequest.Method) async throws -> RelayResponse {
        try await fixture.relay.call(
            try fixture.request(method, "/x"), session: fixture.session, signIns: fixture.signIns,
            token: { (session, _, force) throws(BrokerProblem) in
                AccessToken(Secret("at-\(session.facts.subject)\(force ? "-forced" : "")"))
            })
    }

    @Test(
        "The check of a demand loads a newer state of the session → the call has the access token of this newer state")
    func judged() async throws {
        let signIns = SignIns(judged: RelayFixture.session(subject: "ben"))
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(
                at: upstream.url, require: [try UpstreamRequirement("POST /x", Self.mfa)], signIns: signIns
            ) { (fixture) async throws in
                #expect(try await call(fixture, .get).status == .ok)
                #expect(try await call(fixture, .post).status == .ok)
            }
            #expect(upstream.received.map { $0.values("authorization") } == [["Bearer at-ana"], ["Bearer at-ben"]])
        }
    }

    @Test(
        "An upstream asks for a sign-in, and the session has a newer token → one repeat with this token, without a forced refresh"
    )
    func other() async throws {
        for works in [true, false] {
            let signIns = SignIns(judged: RelayFixture.session(subject: "ben"))
            let challenge = Self.challenge
            try await ScriptedUpstream.run({ connection in
                while let request = try await connection.request() {
                    guard works, request.values("authorization") == ["Bearer at-ben"] else {
                        try await connection.answer(
                            "401 Unauthorized", fields: ["WWW-Authenticate: \(challenge)"], body: "no")
                        continue
                    }
                    try await connection.answer()
                }
            }) { upstream in
                try await RelayFixture.run(at: upstream.url, signIns: signIns) { (fixture) async throws in
                    if works {
                        #expect(try await call(fixture, .get).status == .ok)
                    } else {
                        await #expect { _ = try await call(fixture, .get) } throws: {
                            ($0 as? BrokerProblem)?.code == .stepUpFailed
                        }
                    }
                }
                #expect(
                    upstream.received.map { $0.values("authorization") } == [["Bearer at-ana"], ["Bearer at-ben"]])
            }
        }
    }

    @Test(
        "An upstream's challenge has a syntax error, or `challenges: off` is set → one forced refresh, then its 401 is passed on"
    )
    func off() async throws {
        let signIns = SignIns(.stepUpRequired)
        for (field, passes) in [(Self.challenge, false), (Self.challenge + " x", true), (Self.challenge + "\"", true)] {
            try await ScriptedUpstream.run(answering(field)) { upstream in
                try await RelayFixture.run(at: upstream.url, passesChallenges: passes, signIns: signIns) {
                    (fixture) async throws in
                    #expect(try await fixture.call(.get, "/x").status == .unauthorized)
                    #expect(fixture.tokens.forced == 1)
                }
            }
        }
        #expect(signIns.challenges.isEmpty)
    }

    /// A challenge with `parameters` parameters, including its `error`.
    ///
    /// `others` challenges of other schemes follow.
    private static func challenge(parameters: Int, others: Int = 0) -> String {
        let more = (1..<max(parameters, 1)).map { ",a\($0)=b" }.joined()
        return "Bearer error=insufficient_user_authentication" + more + (0..<others).map { ",S\($0)" }.joined()
    }

    @Test(
        "An upstream's challenge has over 16 parameters, or its 401 has over 16 challenges → the challenge is ignored (SEC-106)",
        arguments: [(16, 0, true), (17, 0, false), (500, 0, false), (1, 15, true), (1, 16, false), (1, 900, false)])
    func largeChallenges(parameters: Int, others: Int, isRead: Bool) async throws {
        let field = Self.challenge(parameters: parameters, others: others)
        try await ScriptedUpstream.run(answering(field)) { upstream in
            let signIns = SignIns(.stepUpRequired)
            try await RelayFixture.run(at: upstream.url, signIns: signIns) { (fixture) async throws in
                _ = try? await fixture.call(.get, "/x")
                #expect(signIns.challenges.count == (isRead ? 1 : 0))
            }
        }
    }

    @Test(
        "A `WWW-Authenticate` field asks for a sign-in → read as a demand; it asks for something else, or is malformed → ignored",
        arguments: [
            (#"DPoP error="insufficient_user_authentication""#, StepUpDemand()),
            (#"Bearer error=insufficient_user_authentication,max_age=0"#, StepUpDemand(maximumAge: 0)),
            (
                #"Basic realm="a, b", Bearer realm="x" , error="insufficient_user_authentication" , acr_values="a b""#,
                StepUpDemand(contextClasses: ["a", "b"])
            ),
            (#"Bearer error="insufficient_user_authentication", Negotiate"#, StepUpDemand()),
            (
                #"bearer ERROR="insufficient_user_authentication", max_age="2147483648""#,
                StepUpDemand(maximumAge: 1 << 31)
            ),
            (#"Bearer error="insufficient_user_authentication", max_age="2147483649""#, nil),
            (#"Bearer error="insufficient_user_authentication", max_age="-1""#, nil),
            (#"Bearer error="insufficient_user_authentication", max_age="""#, nil),
            (#"Bearer error="insufficient_user_authentication", acr_values="""#, nil),
            (#"Bearer error="insufficient_user_authentication", acr_values="a b c d e f g h i""#, nil),
            (#"Bearer error="insufficient_user_authentication", acr_values="a\"b""#, nil),
            (#"Bearer error="insufficient_user_authentication", error="x""#, nil),
            (#"Bearer error="insufficient_user_authentication" max_age="5""#, nil),
            (#"Bearer error="insufficient_user_authentication"#, nil),
            (#"Bearer error="invalid_token""#, nil), ("Bearer", nil), ("", nil), ("=", nil), (", ,", nil),
            (
                #"Bearer error="insufficient_user_authentication", DPoP error="insufficient_user_authentication""#, nil
            ),
        ] as [(String, StepUpDemand?)])
    func parsing(field: String, demand: StepUpDemand?) async throws {
        try await ScriptedUpstream.run(answering(field)) { upstream in
            let signIns = SignIns(.stepUpRequired)
            try await RelayFixture.run(at: upstream.url, signIns: signIns) { (fixture) async throws in
                _ = try? await fixture.call(.get, "/x")
                #expect(signIns.challenges.map(\.demand) == (demand.map { [$0] } ?? []))
            }
        }
    }
}
