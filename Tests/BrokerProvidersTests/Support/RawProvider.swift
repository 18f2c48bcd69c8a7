import Broker
import Foundation
import Synchronization
import Testing

@testable import BrokerProviders

/// An OpenID provider on a `RawServer`; a test chooses the provider's answers.
final class RawProvider: Sendable {
    /// The answers; `BASE` in a text means the server's own address.
    struct Answers: Sendable {
        /// Additional members of the metadata; each replaces a default member of the same name.
        var metadata: [String: String] = [:]
        var keys = TestKeys.p256JWK
        /// Additional claims of the id_token.
        var claims = #""email":"ana@example.org""#
        var header = #"{"alg":"ES256","kid":"k1","typ":"JWT"}"#
        /// The whole id_token; nil if the server makes and signs an id_token with `header` and `claims`.
        var idToken: String?
        /// Members of the token answer in addition to the id_token.
        var token = #""access_token":"at-1","token_type":"Bearer","refresh_token":"rt-1""#
        /// Userinfo's answer to the call with the given number, counted from 1.
        var userinfo: @Sendable (Int) -> RawServer.Reply = { _ in .json(#"{"sub":"u1"}"#) }
        /// The answer of any other path.
        var other: @Sendable (RawServer.Received) -> RawServer.Reply = { _ in .http(404, [], []) }
    }

    let server: RawServer

    init(_ answers: Answers = Answers()) throws {
        let calls = Mutex(0)
        let place = Place()
        server = try RawServer { request in
            let own = place.text
            switch request.target {
            case "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server":
                return .json(Self.metadata(own, answers))
            case "/jwks": return .json(#"{"keys":[\#(answers.keys)]}"#)
            case "/token":
                let token = answers.idToken ?? (try? Self.idToken(own, answers)) ?? ""
                return .json(#"{\#(answers.token),"id_token":"\#(token)"}"#)
            case "/userinfo", "/me":
                let number = calls.withLock { number in
                    number += 1
                    return number
                }
                return answers.userinfo(number)
            default: return answers.other(request)
            }
        }
        place.text = server.base
    }

    private static func metadata(_ base: String, _ answers: Answers) -> String {
        var members = [
            "issuer": #""BASE""#, "authorization_endpoint": #""BASE/authorize""#, "token_endpoint": #""BASE/token""#,
            "jwks_uri": #""BASE/jwks""#, "userinfo_endpoint": #""BASE/userinfo""#,
        ]
        members.merge(answers.metadata) { $1 }
        let text = members.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",")
        return "{\(text)}".replacing("BASE", with: base)
    }

    private static func idToken(_ base: String, _ answers: Answers) throws -> String {
        let now = Int(Date().timeIntervalSince1970)
        let more = answers.claims.isEmpty ? "" : "," + answers.claims
        return try TestKeys.es256(
            #"{"iss":"\#(base)","sub":"u1","aud":"cid-1","iat":\#(now),"exp":\#(now + 600)\#(more)}"#,
            header: answers.header)
    }

    private final class Place: Sendable {
        private let base = Mutex("")

        var text: String {
            get { base.withLock { $0 } }
            set { base.withLock { $0 = newValue } }
        }
    }

    /// The settings of a configured provider with this server's addresses.
    func settings(
        _ service: ProviderSettings.Service = .oidc, _ change: (inout WireSettings) -> Void = { _ in }
    ) -> ProviderSettings {
        var wire = WireSettings()
        change(&wire)
        return ProviderSettings(
            name: ProviderName(unchecked: "p"), service: service, issuer: server.base,
            clients: [ClientSettings(profile: Support.profile(nonce: false), clientID: "cid-1", wire: wire)])
    }

    /// Redeems a code and reads the identity, as a sign-in does.
    func signIn(
        _ settings: ProviderSettings? = nil, isNew: Bool = true
    ) async throws -> (tokens: TokenSet, identity: ProviderIdentity) {
        try await Support.with(settings ?? self.settings()) { client in
            let exchanger = try #require(client as? any CodeExchanging)
            let tokens = try await exchanger.redeem(Support.grant(), by: Support.deadline)
            if let refusal = tokens.refusal { throw ProviderFailure.unusable(detail: refusal) }
            var context = Support.context()
            if isNew { context.secondRead = SecondRead() }
            return (tokens, try await exchanger.identify(tokens, context, by: Support.deadline))
        }
    }
}
