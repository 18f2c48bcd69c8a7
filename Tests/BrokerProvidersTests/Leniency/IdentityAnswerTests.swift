import Broker
import Testing

@testable import BrokerProviders

@Suite("Answers of identity endpoints", .timeLimit(.minutes(2)))
struct IdentityAnswerTests {
    private func signIn(
        _ userinfo: @escaping @Sendable (Int) -> RawServer.Reply, oauth2: Bool = false, isNew: Bool = true
    ) async throws -> (failure: ProviderFailure?, calls: Int) {
        var answers = RawProvider.Answers()
        answers.userinfo = userinfo
        let provider = try RawProvider(answers)
        let settings = oauth2 ? provider.settings(.oauth2) : provider.settings { $0.identity.source = .userinfo }
        let failure = await Support.failure { try await provider.signIn(settings, isNew: isNew) }
        return (failure, provider.server.received.count { $0.target == "/userinfo" })
    }

    @Test("Userinfo refuses a new token every time → identity_rejected, after two calls", arguments: [401, 403, 404])
    func refused(_ status: Int) async throws {
        let found = try await signIn { _ in .http(status, [], []) }
        guard case .identityRejected = found.failure else { return #expect(Bool(false)) }
        #expect(found.calls == 2)
    }

    @Test("Userinfo answers 401 to a token that an app imported, or 400, 402, 405, 410 or 422 to any token → one call")
    func once() async throws {
        let brought = try await signIn({ $0 == 1 ? .http(401, [], []) : .json(#"{"sub":"u1"}"#) }, isNew: false)
        #expect(brought.failure != nil && brought.calls == 1)
        for status in [400, 402, 405, 410, 422] {
            let found = try await signIn { $0 == 1 ? .http(status, [], []) : .json(#"{"sub":"u1"}"#) }
            #expect(found.failure != nil && found.calls == 1, "\(status)")
        }
    }

    @Test("Userinfo refuses a new token one time → the second call reads the user", arguments: [401, 403, 404])
    func later(_ status: Int) async throws {
        for oauth2 in [false, true] {
            let found = try await signIn({ $0 == 1 ? .http(status, [], []) : .json(#"{"sub":"u1"}"#) }, oauth2: oauth2)
            #expect(found.failure == nil && found.calls == 2)
        }
    }

    @Test(
        "A userinfo answer with a subject and an error → identity_rejected",
        arguments: [
            #""error":"invalid_token""#, #""error":true"#, #""error":1"#, #""error":"OK""#, #""error":"0""#,
            #""error":"no""#,
            #""error":[]"#, #""error":{}"#, #""error":{"message":"x"}"#, #""error":{"code":"access_token_invalid"}"#,
            #""error":{"code":190}"#, #""error":{"code":"OK"}"#, #""error":{"code":{}}"#, #""error":{"code":true}"#,
            #""error":"\ud83d""#, #""ok":false"#, #""error":"none","ok":false"#, #""errors":["x"]"#,
        ])
    func errors(_ member: String) async throws {
        let found = try await signIn { _ in .json(#"{"sub":"u1","id":"u1",\#(member)}"#) }
        guard case .identityRejected = found.failure else { return #expect(Bool(false), "\(member)") }
    }

    @Test(
        "A userinfo answer whose error is empty, false, 0, `ok` or `none` → the subject is used; without a subject → refused",
        arguments: [
            #""error":null"#, #""error":"""#, #""error":0"#, #""error":false"#, #""error":"none""#, #""error":"ok""#,
            #""error":{"code":"ok","message":"","log_id":"2022"}"#, #""error":{"code":0}"#, #""error":{"code":null}"#,
            #""error":{"code":""}"#, #""error":{"code":false}"#, #""error":{"code":"none"}"#,
        ])
    func none(_ member: String) async throws {
        for oauth2 in [false, true] {
            let good = try await signIn({ _ in .json(#"{"sub":"u1",\#(member)}"#) }, oauth2: oauth2)
            #expect(good.failure == nil, "\(member)")
            let bad = try await signIn({ _ in .json(#"{"id":"u1",\#(member)}"#) }, oauth2: oauth2)
            guard case .identityRejected = bad.failure else { return #expect(Bool(false), "\(member)") }
        }
    }

    @Test("A token answer with an access token and an error, even with the code `ok` → a rejection")
    func tokenEndpoint() async throws {
        var answers = RawProvider.Answers()
        answers.token = #""access_token":"at-1","error":{"code":"ok"}"#
        let provider = try RawProvider(answers)
        guard case .rejected = await Support.failure({ try await provider.signIn() }) else {
            return #expect(Bool(false))
        }
    }

    @Test("Userinfo, a token answer or metadata with a repeated member → refused, and the log names the member")
    func twice() async throws {
        let found = try await signIn { _ in .json(#"{"sub":"u1","a":{"b":1,"b":1}}"#) }
        #expect(found.failure?.detail.hasSuffix("the member /a/b stands twice") == true, "\(found)")
        var answers = RawProvider.Answers()
        answers.token = #""access_token":"at-1","scope":"a","scope":"a""#
        let provider = try RawProvider(answers)
        let failure = await Support.failure { try await provider.signIn() }
        #expect(failure?.detail.contains("the member /scope stands twice") == true)
        answers.token = #""access_token":"at-1""#
        answers.metadata = ["x\":1,\"x": "1"]
        let document = try RawProvider(answers)
        let refused = await Support.failure { try await document.signIn() }
        #expect(refused?.detail.contains("the member /x stands twice") == true)
    }
}
