import Broker
import Sandbox
import Testing

@testable import BrokerProviders

@Suite("Verdicts on e-mail addresses", .timeLimit(.minutes(2)))
struct EmailVerdictTests {
    /// Values other than true and the text "true".
    private static let notYes = [
        #""false""#, #""no""#, #""0""#, "0", "1", #""yes""#, "null", #""""#, "[]", "{}", "[true]", #"" true""#,
        #""unverified""#,
    ]

    private func verdict(_ identity: ProviderIdentity) -> JSONValue? {
        identity.claims.first { $0.name == "email_verified" }?.value
    }

    @Test(
        "email_verified in an id_token has any value except true → the address is not verified (SEC-33)",
        arguments: notYes)
    func idToken(_ value: String) async throws {
        var answers = RawProvider.Answers()
        answers.claims += #","email_verified":\#(value)"#
        let provider = try RawProvider(answers)
        #expect(verdict(try await provider.signIn().identity) == .bool(false))
    }

    @Test(
        "email_verified from userinfo or an API has any value except true → the address is not verified (SEC-33)",
        arguments: notYes)
    func userinfo(_ value: String) async throws {
        var answers = RawProvider.Answers()
        answers.userinfo = { _ in
            .json(#"{"sub":"u1","email":"ana@example.org","email_verified":\#(value),"x":{"mail":"a@b"}}"#)
        }
        let provider = try RawProvider(answers)
        let userinfo = provider.settings { $0.identity.source = .userinfo }
        #expect(verdict(try await provider.signIn(userinfo).identity) == .bool(false))
        // The configuration names the claim `email`, and not `email_verified`. The answer's `email_verified` is still used.
        for pointer in ["/email", "/x/mail"] {
            let api = provider.settings(.oauth2) { $0.identity.claims = [("email", pointer)] }
            #expect(verdict(try await provider.signIn(api).identity) == .bool(false), "\(pointer)")
        }
        let named = provider.settings(.oauth2) {
            $0.identity.claims = [("email", "/x/mail"), ("email_verified", "/email_verified")]
        }
        #expect(verdict(try await provider.signIn(named).identity) == .bool(false))
    }

    @Test(
        "email_verified is true, or the text true in any letter case → the address is verified",
        arguments: ["true", #""true""#, #""True""#, #""TRUE""#])
    func verified(_ value: String) async throws {
        var answers = RawProvider.Answers()
        answers.claims += #","email_verified":\#(value)"#
        let provider = try RawProvider(answers)
        #expect(verdict(try await provider.signIn().identity) == .bool(true))
    }

    @Test(
        "An id_token with an e-mail address and no email_verified → the identity has the address, and no email_verified"
    )
    func missing() async throws {
        let identity = try await RawProvider().signIn().identity
        #expect(verdict(identity) == nil)
        #expect(identity.claims.contains { $0.name == "email" && $0.value == .string("ana@example.org") })
    }

    @Test(
        "Two sources of claims → the source of the address decides email_verified; if it does not, a false of the other counts"
    )
    func sources() {
        typealias Claims = [(name: String, value: JSONValue)]
        func merged(_ first: Claims, _ second: Claims) -> [JSONValue?] {
            let all = IdentityMapper.merged(first, with: second)
            return ["email", "email_verified"].map { name in all.first { $0.name == name }?.value }
        }
        let (mine, theirs) = (("email", JSONValue.string("a@x")), ("email", JSONValue.string("b@x")))
        func verdict(_ value: Bool) -> (String, JSONValue) { ("email_verified", .bool(value)) }
        // `email_verified: true` from one source is never used for the address from the other source.
        #expect(merged([mine], [theirs, verdict(true)]) == [.string("a@x"), nil])
        #expect(merged([mine], [theirs, verdict(false)]) == [.string("a@x"), .bool(false)])
        #expect(merged([mine, verdict(true)], [theirs, verdict(false)]) == [.string("a@x"), .bool(true)])
        #expect(merged([verdict(true)], [theirs]) == [.string("b@x"), nil])
        #expect(merged([verdict(true)], [theirs, verdict(false)]) == [.string("b@x"), .bool(false)])
        #expect(merged([verdict(false)], [theirs]) == [.string("b@x"), .bool(false)])
    }

    @Test("GitHub: the list of addresses marks the profile's address as unverified → not verified (SEC-33)")
    func listed() async throws {
        var answers = RawProvider.Answers()
        answers.userinfo = { _ in .json(#"{"sub":"u1","email":"a@x"}"#) }
        answers.other = { _ in .json(#"[{"email":"a@x","primary":true,"verified":"no"}]"#) }
        let provider = try RawProvider(answers)
        let settings = provider.settings(.oauth2) {
            $0.identity.emailsURL = EndpointURL(provider.server.base + "/emails")
        }
        #expect(verdict(try await provider.signIn(settings).identity) == .bool(false))
    }
}
