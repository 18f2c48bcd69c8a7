import Broker
import BrokerTestSupport
import BrokerWire
import HTTPTypes
import Testing

@testable import BrokerHTTP

@Suite("Problems", .timeLimit(.minutes(2)))
struct ProblemTests {
    private static let canary = "canary-private-detail"

    private func responder() -> ProblemResponder {
        let configuration = HTTPConfiguration(publicURL: "https://auth.example.com")
        return ProblemResponder(
            cookies: CookieWriter(configuration, isSecure: true, now: { TestClock.start }), now: { TestClock.start })
    }

    private func problem(_ code: ProblemCode) -> BrokerProblem {
        BrokerProblem(
            code, privateDetail: Self.canary,
            with: code == .sessionEnded ? .ended(.grantRevoked) : .fields([FieldFault("/a", .unknown)]),
            retryAfter: .milliseconds(1500))
    }

    @Test(
        "Imported tokens make no session → `login_required` with a null login and the reason",
        arguments: ImportEnd.allCases)
    func importEnded(_ reason: ImportEnd) throws {
        let problem = BrokerProblem(.loginRequired, with: .importFailed(reason))
        let json = try JSONParser.parseObject(ProblemBody.bytes(problem, requestID: "r"), maximumBytes: 10_000)
        #expect(json["login"] == .null)
        #expect(json["reason"]?.string == reason.rawValue)
        let answer = responder().answer(problem, requestID: "r", ProblemResponder.Circumstances())
        #expect(answer.headers[.setCookie] == nil)
    }

    @Test("The client refuses imports now → `client_not_allowed` with the reason", arguments: ImportRefusal.allCases)
    func importRefused(_ reason: ImportRefusal) throws {
        let problem = BrokerProblem(.clientNotAllowed, with: .importRefused(reason))
        let json = try JSONParser.parseObject(ProblemBody.bytes(problem, requestID: "r"), maximumBytes: 10_000)
        #expect(json["reason"]?.string == reason.rawValue && json["status"]?.integer == 403)
    }

    @Test(
        "A problem of each code → has a title, a sentence and its status, and leaks no secret (SEC-107)",
        arguments: ProblemCode.allCases)
    func documents(code: ProblemCode) throws {
        let body = String(decoding: ProblemBody.bytes(problem(code), requestID: "req_1"), as: UTF8.self)
        let json = try JSONParser.parseObject(Array(body.utf8), maximumBytes: 10_000)
        #expect(json["type"]?.string == "urn:coatcheck:problem:" + code.rawValue)
        #expect(json["title"]?.string?.isEmpty == false)
        #expect(json["detail"]?.string?.hasSuffix(".") == true)
        #expect(json["status"]?.integer == Int64(code.status))
        #expect(json["request_id"]?.string == "req_1")
        #expect((400...599).contains(code.status))
        #expect(!body.contains(Self.canary))
    }

    @Test(
        "A 401 → has a challenge; 429 and 503 → have `Retry-After`; only an ended session → clears the cookie (SEC-107)",
        arguments: ProblemCode.allCases)
    func fields(code: ProblemCode) {
        var circumstances = ProblemResponder.Circumstances()
        circumstances.hasSessionCookie = true
        let answer = responder().answer(problem(code), requestID: "req_1", circumstances)
        #expect(answer.headers.contains(.wwwAuthenticate) == (code.status == 401))
        #expect(answer.headers.contains(.retryAfter) == (code.status == 429 || code.status == 503))
        #expect(answer.headers.contains(.setCookie) == (code == .sessionEnded))
        #expect(answer.headers[.cacheControl] == "no-store")
        #expect(answer.headers[.contentType] == "application/problem+json")
    }

    @Test(
        "A problem of each code at an OAuth route → becomes an error that OAuth knows, and leaks no secret",
        arguments: ProblemCode.allCases)
    func oauth(code: ProblemCode) throws {
        let known: Set<String> = [
            "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "server_error",
            "temporarily_unavailable", "access_denied", "insufficient_user_authentication",
        ]
        let (status, bytes) = OAuthErrorBody.render(problem(code))
        let json = try JSONParser.parseObject(bytes, maximumBytes: 10_000)
        #expect(known.contains(json["error"]?.string ?? ""))
        #expect(json["code"]?.string == code.rawValue)
        #expect((400...599).contains(status))
        #expect(!String(decoding: bytes, as: UTF8.self).contains(Self.canary))
        if code.status == 503 { #expect(json["error"]?.string == "temporarily_unavailable") }
    }

    @Test(
        "A problem has a time to wait → `Retry-After` has its whole seconds, rounded up; a problem has no time → five seconds"
    )
    func retryAfter() {
        let answer = responder().answer(
            BrokerProblem(.rateLimited, retryAfter: .milliseconds(1)), requestID: "r", ProblemResponder.Circumstances())
        #expect(answer.headers[.retryAfter] == "1")
        let without = responder().answer(
            BrokerProblem(.storeUnavailable), requestID: "r", ProblemResponder.Circumstances())
        #expect(without.headers[.retryAfter] == "5")
    }

    @Test(
        "A problem comes with a new login → a cookie client gets the login token as a cookie, a bearer client in the body",
        arguments: [ClientProfile.Transport.cookie, .bearer])
    func login(transport: ClientProfile.Transport) throws {
        let login = StartedLogin(
            loginID: "lgn_1", authorizationURL: Secret("https://as.example/a"), state: Secret("s"),
            expiresAt: TestClock.start.advanced(by: .seconds(600)), loginToken: Secret("t"), transport: transport)
        let answer = responder().answer(
            BrokerProblem(.loginRequired, with: .login(login)), requestID: "r", ProblemResponder.Circumstances())
        let cookie =
            "__Host-coatcheck-login=t; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=600; "
            + "Expires=Fri, 20-Nov-2026 21:30:00 GMT"
        #expect(answer.headers[.setCookie] == (transport == .cookie ? cookie : nil))
        let body = String(
            decoding: ProblemBody.bytes(BrokerProblem(.loginRequired, with: .login(login)), requestID: "r"),
            as: UTF8.self)
        #expect(body.contains("login_token") == (transport == .bearer))
    }
}

extension Answer {
    /// The fields, for assertions.
    fileprivate var headers: HTTPFields { HTTPFields(fields) }
}
