import Broker
import NIOHTTP1
import Testing

@testable import BrokerProviders

@Suite("Reading a provider's token answers", .timeLimit(.minutes(2)))
struct TokenAnswerTests {
    private static let now = WallTime(seconds: 1_800_000_000)

    private func parse(
        _ body: String, status: Int = 200, type: String = "application/json",
        _ settings: TokenResponseSettings = TokenResponseSettings(), separator: String = " "
    ) throws -> TokenSet {
        let answer = ProviderAnswer(
            status: status, headers: HTTPHeaders([("Content-Type", type)]), body: Array(body.utf8), fault: nil)
        return try TokenAnswer(settings: settings, scopeSeparator: separator, keepsRefreshToken: true)
            .parse(answer, now: Self.now)
    }

    private func failure(
        _ body: String, status: Int = 200, type: String = "application/json",
        _ settings: TokenResponseSettings = TokenResponseSettings()
    ) -> ProviderFailure? {
        do {
            _ = try parse(body, status: status, type: type, settings)
            return nil
        } catch { return error as? ProviderFailure }
    }

    @Test(
        "A token answer with status 200 but without a usable access token → unusable (SEC-20)",
        arguments: [
            "", "{", "[]", "null", "\"at\"", "{}", #"{"access_token":""}"#, #"{"access_token":null}"#,
            #"{"access_token":["a"]}"#, #"{"access_token":1}"#, #"{"access_token":"a b"}"#,
            #"{"access_token":"a\r\nSet-Cookie: x"}"#, #"{"access_token":"a\u0000"}"#, #"{"access_token":"é"}"#,
            #"{"access_token":"a","token_type":"mac"}"#,
            #"{"access_token":"a","token_type":"DPoP"}"#, #"{"access_token":"a","token_type":1}"#,
            #"{"access_token":"a","access_token":"b"}"#, #"{"access_token":"a","refresh_token":7}"#,
            #"{"access_token":"a","refresh_token":"x\n"}"#, #"{"access_token":"a","id_token":{}}"#,
            "<!doctype html><html></html>", "access_token",
        ])
    func unusable(_ body: String) {
        guard case .unusable = failure(body) else { return #expect(Bool(false), "\(body)") }
    }

    @Test("A token answer with an access token over 16 KiB → unusable")
    func longToken() {
        let token = String(repeating: "a", count: 16_385)
        guard case .unusable = failure(#"{"access_token":"\#(token)"}"#) else { return #expect(Bool(false)) }
    }

    @Test(
        "A token answer that reports an error in any usual form, with any status → an OAuth error (SEC-20)",
        arguments: [
            (200, #"{"error":"bad_verification_code","access_token":"a"}"#, "bad_verification_code"),
            (200, #"{"ok":false,"error":"invalid_code"}"#, "invalid_code"), (200, #"{"ok":false}"#, "invalid_request"),
            (400, #"{"error":"invalid_grant"}"#, "invalid_grant"), (403, #"{"error":"invalid_code"}"#, "invalid_code"),
            (400, #"{"error":{"message":"m","type":"OAuthException","code":100}}"#, "OAuthException"),
            (400, #"{"error":{"code":100}}"#, "100"),
            (400, #"{"errors":[{"errorType":"invalid_grant"}]}"#, "invalid_grant"),
            (400, #"{"status":400,"message":"Invalid"}"#, "invalid_request"),
            (401, #"{"error":"invalid_client","error_code":401,"error_hint":"x"}"#, "invalid_client"),
            (400, #"{"error":"a\r\nb\"c"}"#, "abc"),
        ])
    func errors(_ status: Int, _ body: String, _ code: String) {
        guard case .rejected(let error) = failure(body, status: status) else { return #expect(Bool(false), "\(body)") }
        #expect(error.code == code && error.status == status)
    }

    @Test("A token answer with 429 or 5xx and any body → tried later", arguments: [429, 500, 502, 503, 504, 599])
    func retryable(_ status: Int) {
        guard case .retryable(status, _, _) = failure(#"{"error":"invalid_grant"}"#, status: status) else {
            return #expect(Bool(false))
        }
    }

    @Test(
        "A token answer with 400 and the error temporarily_unavailable or ratelimited → tried later",
        arguments: ["temporarily_unavailable", "ratelimited"])
    func transient(_ code: String) {
        guard case .retryable = failure(#"{"error":"\#(code)"}"#, status: 400) else { return #expect(Bool(false)) }
    }

    @Test(
        "A token answer that is a redirect, an HTML page, or a 403 or 404 without an error member → unusable",
        arguments: [(302, ""), (403, ""), (400, "<html></html>"), (404, "{}")])
    func notContract(_ status: Int, _ body: String) {
        guard case .unusable = failure(body, status: status) else { return #expect(Bool(false)) }
    }

    @Test(
        "A token answer with 400 or 401 and no body → a rejection, which does not prove a dead grant",
        arguments: [400, 401])
    func empty(_ status: Int) {
        guard case .rejected(let error) = failure("", status: status) else { return #expect(Bool(false)) }
        #expect(error.isEmpty && !error.isInvalidGrant && error.status == status)
    }

    @Test(
        "A token request is refused with an OAuth error → this may mean a dead grant; in any other form → never (guarantee 3)"
    )
    func named() {
        for (body, isNamed) in [
            (#"{"error":"invalid_request","error_description":"Refresh token inactive"}"#, true),
            (#"{"message":"Forbidden"}"#, false), (#"{"error_description":"x"}"#, false), (#"{"ok":false}"#, false),
            (#"{"error":{"code":190}}"#, false), (#"{"errors":["x"]}"#, false), (#"{"error":true}"#, false),
        ] {
            guard case .rejected(let refusal) = failure(body, status: 400) else {
                return #expect(Bool(false), "\(body)")
            }
            #expect(refusal.isNamed == isNamed && refusal.mayMeanDeadGrant == isNamed, "\(body)")
        }
    }

    @Test("A token answer with an error code that the configuration lists as a dead grant → counts as invalid_grant")
    func aliases() {
        let settings = TokenResponseSettings(invalidGrantCodes: ["bad_refresh_token"])
        guard case .rejected(let error) = failure(#"{"error":"bad_refresh_token"}"#, settings) else {
            return #expect(Bool(false))
        }
        #expect(error.isInvalidGrant)
    }

    @Test("A path is configured for tokens → tokens at that path are read, and an access token at the top is ignored")
    func nested() throws {
        let settings = TokenResponseSettings(path: "/authed_user", tokenTypes: ["user"])
        let tokens = try parse(
            #"{"ok":true,"access_token":"bot","authed_user":{"access_token":"user","token_type":"user","scope":"a,b"}}"#,
            settings, separator: ",")
        #expect(tokens.accessToken.reveal() == "user")
        #expect(tokens.scope == ["a", "b"])
        guard case .unusable = failure(#"{"ok":true,"access_token":"bot"}"#, settings) else {
            return #expect(Bool(false))
        }
    }

    @Test(
        "A form-encoded token answer, with the media type of forms or of plain text → read",
        arguments: ["application/x-www-form-urlencoded", "text/plain; charset=utf-8"])
    func form(_ type: String) throws {
        let tokens = try parse(
            "access_token=gho_1&scope=user%3Aemail%2Crepo&token_type=bearer&expires_in=28800", type: type,
            separator: ",")
        #expect(tokens.accessToken.reveal() == "gho_1")
        #expect(tokens.scope == ["user:email", "repo"])
        #expect(tokens.expiresAt == WallTime(seconds: Self.now.seconds + 28_800))
    }

    @Test("An error in a form-encoded token answer → an OAuth error")
    func formError() {
        let failure = failure(
            "error=bad_verification_code&error_description=x", type: "application/x-www-form-urlencoded")
        guard case .rejected(let error) = failure else { return #expect(Bool(false)) }
        #expect(error.code == "bad_verification_code")
    }

    @Test("A good token answer, with its type missing or in any letter case, and scope as text, array or null → parsed")
    func whole() throws {
        let tokens = try parse(
            #"{"access_token":"at-1","token_type":"bEaReR","expires_in":"3599","refresh_token":"rt|1","id_token":"a.b.c","scope":["a","b"],"grant_id":"g"}"#
        )
        #expect(tokens.refreshToken?.reveal() == "rt|1")
        #expect(tokens.idToken?.reveal() == "a.b.c")
        #expect(tokens.scope == ["a", "b"])
        #expect(tokens.expiresAt == WallTime(seconds: Self.now.seconds + 3599))
        #expect(try parse(#"{"access_token":"a","scope":null,"refresh_token":"","id_token":null}"#).scope == nil)
        #expect(try parse(#"{"access_token":"a","scope":"x \"y\" z"}"#).scope == ["x", "z"])
        #expect(try parse(#"{"access_token":"a"}"#, status: 201).expiresAt == nil)
    }

    @Test(
        "Settings for renamed fields, absolute expiries or a default lifetime → the answer is read with them"
    )
    func settings() throws {
        let sentry = TokenResponseSettings(fields: ["access_token": "token", "refresh_token": "refreshToken"])
        #expect(try parse(#"{"token":"t","refreshToken":"r"}"#, sentry).refreshToken?.reveal() == "r")
        let clover = TokenResponseSettings(
            expiresField: "access_token_expiration", refreshExpiresField: "refresh_token_expiration",
            expiresUnit: .epochSeconds)
        let tokens = try parse(
            #"{"access_token":"a","access_token_expiration":1800000100,"refresh_token":"r","refresh_token_expiration":1800000200}"#,
            clover)
        #expect(tokens.expiresAt == WallTime(seconds: 1_800_000_100))
        #expect(tokens.refreshExpiresAt == WallTime(seconds: 1_800_000_200))
        let clever = TokenResponseSettings(defaultLifetime: .seconds(86_400))
        #expect(try parse(#"{"access_token":"a"}"#, clever).expiresAt == WallTime(seconds: Self.now.seconds + 86_400))
    }

    @Test(
        "A 429 with Retry-After or X-RateLimit-Reset → the wait ends at this time; the time is past or far off → unknown wait",
        arguments: [
            ("Retry-After", "7", 7), ("X-RateLimit-Reset", "1800000030", 30), ("Retry-After", "999999", nil),
            ("X-RateLimit-Reset", "-9223372036854775808", nil), ("Retry-After", "Tue, 02 Nov 2027 10:00:00 GMT", nil),
            ("Retry-After", "Fri, 15 Jan 2027 08:00:20 GMT", 20), ("Retry-After", "Fri, 15 Jan 2027 07:59:59 GMT", nil),
        ] as [(String, String, Int64?)])
    func retryAfter(_ name: String, _ value: String, _ seconds: Int64?) {
        let answer = ProviderAnswer(status: 429, headers: HTTPHeaders([(name, value)]), body: [], fault: nil)
        #expect(answer.retryAfter(at: Self.now) == seconds.map { .seconds($0) })
    }
}
