import Testing

@testable import Sandbox

@Suite("The playground's guard", .timeLimit(.minutes(1)))
struct PlaygroundGuardTests {
    private static let good = PlaygroundGuard.Caller(
        host: "127.0.0.1:8089", origin: nil, contentType: "application/json", token: "this-start")

    private func refusal(
        of caller: PlaygroundGuard.Caller, change: (inout PlaygroundGuard.Caller) -> Void = { _ in }
    ) -> PlaygroundGuard.Refusal? {
        var caller = caller
        change(&caller)
        do throws(PlaygroundGuard.Refusal) {
            try PlaygroundGuard(token: "this-start").check(caller)
            return nil
        } catch {
            return error
        }
    }

    @Test(
        "A request has a Host other than localhost, 127.0.0.1 or [::1], even one that resolves to loopback → refused",
        arguments: [
            nil, "", "evil.example", "evil.example:8089", "127.0.0.1.evil.example", "127.0.0.1evil", "localhost.evil",
            "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:8089:1", "127.0.0.1:123456", "127.0.0.2", "0.0.0.0", "[::1", "::1",
            "[::1]x", "127.0.0.1 ", "user@127.0.0.1", "LOCALHOST", "localhost.",
        ])
    func foreignHost(host: String?) {
        #expect(refusal(of: Self.good) { $0.host = host } == .foreignHost)
    }

    @Test(
        "A request whose Origin has another host, port or scheme than the page, or is `null` → refused",
        arguments: [
            "https://evil.example", "null", "", "http://127.0.0.1", "http://127.0.0.1:1", "https://127.0.0.1:8089",
            "http://localhost:8089", "http://127.0.0.1:8089/", "http://127.0.0.1:80890",
        ])
    func foreignOrigin(origin: String) {
        #expect(refusal(of: Self.good) { $0.origin = origin } == .foreignOrigin)
    }

    @Test(
        "A request whose Content-Type is not JSON, as a form of another site can send it → refused",
        arguments: [
            nil, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
            "text/plain;application/json", "application/jsonx",
        ])
    func notJSON(type: String?) {
        #expect(refusal(of: Self.good) { $0.contentType = type } == .notJSON)
    }

    @Test(
        "A request lacks the page token that the sandbox made at its start → refused",
        arguments: [nil, "", "this-star", "this-start ", "This-start", "that-start"])
    func wrongToken(token: String?) {
        #expect(refusal(of: Self.good) { $0.token = token } == .wrongToken)
    }

    @Test(
        "A request from the playground's own page, or from a program of this machine → allowed",
        arguments: ["127.0.0.1:8089", "localhost:1", "[::1]:9", "localhost"])
    func allowed(host: String) {
        #expect(refusal(of: Self.good) { $0.host = host } == nil)
        #expect(
            refusal(of: Self.good) {
                $0.host = host
                $0.origin = "http://" + host
                $0.contentType = "Application/JSON ; charset=utf-8"
            } == nil)
    }

    @Test("A request's Host is the sandbox's configured host name → accepted; without this setting → refused")
    func ownName() {
        let caller = PlaygroundGuard.Caller(host: "sandbox:8089", origin: nil, contentType: nil, token: nil)
        #expect(throws: PlaygroundGuard.Refusal.foreignHost) { try PlaygroundGuard.checkPlace(caller) }
        #expect(throws: PlaygroundGuard.Refusal.foreignHost) { try PlaygroundGuard.checkPlace(caller, own: "") }
        #expect(throws: Never.self) { try PlaygroundGuard.checkPlace(caller, own: "sandbox:8089") }
    }
}
