import Broker
import BrokerTestSupport
import Synchronization
import Testing

@testable import BrokerProviders

/// Questions to an old system (`move_in`).
@Suite("Old systems", .timeLimit(.minutes(2)))
struct OldSystemTests {
    private static let id = String(repeating: "i", count: 43)
    private let now = WallTime(seconds: 1_795_000_000)

    private func settings(_ provider: RawProvider, url: String? = nil, isInternal: Bool = false) -> ProviderSettings {
        var settings = provider.settings()
        settings.clients[0].oldSystem = EndpointURL(url ?? provider.server.base + "/claim").map {
            OldSystemSettings(url: $0, credential: Secret("the-credential"), isInternal: isInternal)
        }
        return settings
    }

    private func claim(
        _ settings: ProviderSettings, token: String = "old-session"
    ) async throws -> Result<LegacyAnswer, ProviderFailure> {
        try await Support.with(settings) { client in
            let claiming = try #require(client as? any LegacyClaiming)
            do throws(ProviderFailure) {
                return .success(
                    try await claiming.claim(
                        LegacyClaim(id: Self.id, client: Support.ios, token: Secret(token)), by: Support.deadline))
            } catch { return .failure(error) }
        }
    }

    /// Asks a server that gives this answer.
    private func answer(_ reply: RawServer.Reply) async throws -> Result<LegacyAnswer, ProviderFailure> {
        try await claim(settings(try RawProvider(.init(other: { _ in reply }))))
    }

    private func session(_ body: String) async throws -> LegacySession? {
        guard case .success(.session(let session)) = try await answer(.json(body)) else { return nil }
        return session
    }

    private func isPassing(_ result: Result<LegacyAnswer, ProviderFailure>) -> Bool {
        switch result {
        case .failure(.notSent), .failure(.retryable), .failure(.lost): true
        case .success, .failure: false
        }
    }

    @Test(
        "A status other than 200, 404 and 410, or a 404 that lacks the question's `id` → `retryable` or `lost`",
        arguments: [201, 204, 301, 302, 307, 400, 401, 403, 404, 409, 410, 418, 429, 500, 502, 503])
    func statuses(_ status: Int) async throws {
        for body in ["", "{}", #"{"id":"other"}"#, #"{"id":7}"#, "<html>", #"{"subject":"u1","refresh_token":"rt"}"#] {
            let found = try await answer(.json(body, status: status, [("Location", "/claim2")]))
            #expect(isPassing(found), "\(status) \(body)")
        }
    }

    @Test("A 404 or 410 repeats the question's `id` → refused", arguments: [404, 410])
    func refused(_ status: Int) async throws {
        let found = try await answer(.json(#"{"id":"\#(Self.id)","more":1}"#, status: status))
        guard case .success(.refused) = found else {
            Issue.record("\(found)")
            return
        }
    }

    @Test("A redirect → ends the question")
    func redirect() async throws {
        let provider = try RawProvider(
            .init(other: { request in
                request.target == "/claim"
                    ? .json("{}", status: 307, [("Location", "/elsewhere")]) : .json(#"{"subject":"u1"}"#)
            }))
        #expect(isPassing(try await claim(settings(provider))))
        #expect(!provider.server.received.contains { $0.target == "/elsewhere" })
    }

    @Test(
        "A 200 is other than a JSON object, has a member of a wrong type or twice, or is over 64 KiB → `retryable` or `lost`",
        arguments: [
            "", "null", "[]", "x", #"{"subject":"u1""#, #"{"subject":1}"#, #"{"subject":""}"#,
            #"{"subject":"a\u0000"}"#, #"{"refresh_token":["rt"]}"#, #"{"refresh_token":"a b"}"#,
            #"{"refresh_token":""}"#, #"{"id_token":{}}"#, #"{"scope":7}"#, #"{"scope":["a",7]}"#,
            #"{"created_at":"yesterday"}"#, #"{"created_at":"2026-01-01"}"#, #"{"expires_at":1.5}"#,
            #"{"expires_at":true}"#, #"{"device":7}"#, #"{"subject":"u1","subject":"u1"}"#,
            #"{"subject":"u1","more":"\#(String(repeating: "x", count: 65_536))"}"#,
        ])
    func junk(_ body: String) async throws { #expect(isPassing(try await answer(.json(body)))) }

    @Test("The answer is cut at any byte → `retryable` or `lost`")
    func cut() async throws {
        let body = #"{"subject":"u1","refresh_token":"rt-1"}"#
        for kept in 0..<body.utf8.count {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
            let provider = try RawProvider(
                .init(other: { _ in .raw(Array(head.utf8) + Array(body.utf8.prefix(kept))) }))
            #expect(isPassing(try await claim(settings(provider))), "\(kept)")
        }
    }

    @Test("The members of a session → read; nulls count as missing, and others are ignored")
    func members() async throws {
        let found = try #require(
            try await session(
                #"""
                {"subject":"u1","refresh_token":"rt","id_token":"a.b.c","scope":"mail calendar","access_token":7,
                "created_at":"2026-11-28T12:00:00.123456+02:00","expires_at":1795003600,"authenticated_at":false,
                "device":"\#(String(repeating: "d", count: 100))\u0007","more":{}}
                """#))
        #expect(found.subject == "u1" && found.refreshToken?.reveal() == "rt" && found.idToken?.reveal() == "a.b.c")
        #expect(found.scope == ["mail", "calendar"] && found.device == String(repeating: "d", count: 64))
        #expect(found.createdAt == WallTime(seconds: 1_795_860_000))
        #expect(found.expiresAt == WallTime(seconds: 1_795_003_600))
        let bare = try #require(
            try await session(#"{"subject":null,"refresh_token":null,"scope":["a","b"],"device":""}"#))
        #expect(bare.subject == nil && bare.refreshToken == nil && bare.device == nil && bare.scope == ["a", "b"])
    }

    @Test("A question → a POST with the credential, the `id` and the token, on a connection of its own")
    func question() async throws {
        let provider = try RawProvider(.init(other: { _ in .json(#"{"subject":"u1"}"#) }))
        _ = try await claim(settings(provider), token: "s%3Aold\"session")
        let asked = try #require(provider.server.received.first)
        #expect(asked.method == "POST" && asked.header("Authorization") == "Bearer the-credential")
        #expect(asked.header("Content-Type") == "application/json")
        #expect(
            asked.body
                == #"{"id":"\#(Self.id)","provider":"p","client":"ios","token":"s%3Aold\"session"}"#)
    }

    @Test("The old system is at a private address → refused before sending, unless `internal` is set")
    func privateAddress() async throws {
        let provider = try RawProvider()
        guard
            case .failure(.notSent(let detail)) = try await claim(
                settings(provider, url: "https://10.255.255.1/claim"))
        else {
            Issue.record("sent")
            return
        }
        #expect(!detail.isEmpty)
    }

    @Test("The client lacks `move_in` → `notSent`")
    func without() async throws {
        guard case .failure(.notSent) = try await claim(try RawProvider().settings()) else {
            Issue.record("sent")
            return
        }
    }

    // MARK: The check

    private func findings(_ other: @escaping @Sendable (RawServer.Received) -> RawServer.Reply) async throws
        -> [ProbeResult]
    {
        let provider = try RawProvider(.init(other: other))
        return try await Support.with(settings(provider)) { client in
            await (client as? any OldSystemProbing)?.probeOldSystems() ?? []
        }
    }

    private static func refusal(_ request: RawServer.Received) -> RawServer.Reply {
        let id = (try? JSONParser.parseObject(Array(request.body.utf8), maximumBytes: 65_536))?["id"]?.string ?? ""
        return .json(#"{"id":"\#(id)"}"#, status: 404)
    }

    @Test("`check --online` asks with a made-up token, and with a wrong credential → both have to be refused")
    func probe() async throws {
        let good = try await findings { request in
            request.header("Authorization") == "Bearer the-credential"
                ? Self.refusal(request) : .json("{}", status: 401)
        }
        #expect(good.map(\.isGood) == [true, true])
        let open = try await findings { Self.refusal($0) }
        #expect(open.map(\.isGood) == [true, false])
        let elsewhere = try await findings { _ in .json("<html>", status: 404) }
        #expect(elsewhere.map(\.isGood) == [false])
        let generous = try await findings { _ in .json(#"{"subject":"u1"}"#) }
        #expect(generous.map(\.isGood) == [false, false])
        for finding in good + open + elsewhere + generous { #expect(!finding.text.contains("the-credential")) }
    }
}
