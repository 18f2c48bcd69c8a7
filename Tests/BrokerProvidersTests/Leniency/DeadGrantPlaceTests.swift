import Broker
import Testing

@testable import BrokerProviders

@Suite("The setting dead_grants", .timeLimit(.minutes(2)))
struct DeadGrantPlaceTests {
    private static let places = [
        DeadGrantPlace(pointer: "/errors/*/errorType", values: ["invalid_grant", "expired_token"]),
        DeadGrantPlace(pointer: "/status", values: ["BAD_REFRESH_TOKEN"]),
        DeadGrantPlace(pointer: "/errcode", values: ["40030"], statuses: [200]),
        DeadGrantPlace(pointer: "/errors/*", values: ["Refresh token is invalid"]),
    ]

    /// The failures of two calls that the provider answers with `status` and `body`: a refresh, and the redemption of a code.
    private func failures(
        _ status: Int, _ body: String, _ places: [DeadGrantPlace] = places
    ) async throws -> (refresh: ProviderFailure?, code: ProviderFailure?) {
        let server = try RawServer { _ in .json(body, status: status) }
        let settings = ProviderSettings(
            name: ProviderName(unchecked: "p"), service: .oauth2,
            endpoints: EndpointSettings(
                authorization: EndpointURL(server.base + "/a"), token: EndpointURL(server.base + "/t"),
                userinfo: EndpointURL(server.base + "/u")),
            clients: [
                ClientSettings(
                    profile: Support.profile(nonce: false), clientID: "cid-1",
                    wire: WireSettings(tokenResponse: TokenResponseSettings(deadGrants: places)))
            ])
        return try await Support.with(settings) { client in
            let refresher = try #require(client as? any TokenRefreshing)
            let exchanger = try #require(client as? any CodeExchanging)
            return (
                await Support.failure { try await refresher.refresh(Support.refresh(), by: Support.deadline) },
                await Support.failure { try await exchanger.redeem(Support.grant(), by: Support.deadline) }
            )
        }
    }

    private func isDead(_ failure: ProviderFailure?) -> Bool {
        guard case .rejected(let refusal) = failure else { return false }
        return refusal.isInvalidGrant && !refusal.mayMeanDeadGrant
    }

    @Test(
        "An answer that matches a dead_grants entry only in part → ends no session (guarantee 2)",
        arguments: [
            (400, #"{"success":false,"errors":[{"errorType":"invalid_grant"},{"errorType":"system"}]}"#),
            (400, #"{"success":false,"errors":[{"errorType":"invalid_grant"},{"message":"x"}]}"#),
            (400, #"{"success":false,"errors":[{"errorType":"invalid_grant_type"}]}"#),
            (400, #"{"success":false,"errors":[{"errorType":["invalid_grant"]}]}"#),
            (400, #"{"success":false,"errors":{"0":{"errorType":"invalid_grant"}}}"#),
            (400, #"{"success":false,"errors":[]}"#), (400, #"{"status":"BAD_REFRESH_TOKEN "}"#),
            (400, #"{"status":"bad_refresh_token"}"#), (400, #"{"x":{"status":"BAD_REFRESH_TOKEN"}}"#),
            (403, #"{"status":"BAD_REFRESH_TOKEN"}"#), (404, #"{"status":"BAD_REFRESH_TOKEN"}"#),
            (429, #"{"status":"BAD_REFRESH_TOKEN"}"#), (500, #"{"status":"BAD_REFRESH_TOKEN"}"#),
            (400, #"{"errcode":40030}"#), (200, #"{"errcode":4003}"#), (200, #"{"errcode":true}"#),
            (400, #"{"errors":["Refresh token is invalid","Try later"]}"#), (400, #"{"message":"token expired"}"#),
        ])
    func unnamed(_ status: Int, _ body: String) async throws {
        let found = try await failures(status, body)
        #expect(!isDead(found.refresh), "\(body) \(String(describing: found.refresh))")
    }

    @Test(
        "A dead_grants value next to an access token, in a code's answer, or at a client without dead_grants → no dead grant"
    )
    func others() async throws {
        let granted = try await failures(
            200, #"{"errcode":40030,"access_token":"at-1"}"#)
        #expect(granted.refresh == nil)
        let code = try await failures(400, #"{"status":"BAD_REFRESH_TOKEN"}"#).code
        #expect(!isDead(code))
        let unset = try await failures(400, #"{"status":"BAD_REFRESH_TOKEN"}"#, [])
        #expect(!isDead(unset.refresh))
    }

    @Test(
        "An answer has a value of dead_grants at the configured place, with the configured status → a dead grant",
        arguments: [
            (400, #"{"success":false,"errors":[{"errorType":"invalid_grant","message":"m"}]}"#),
            (401, #"{"success":false,"errors":[{"errorType":"expired_token"},{"errorType":"invalid_grant"}]}"#),
            (400, #"{"status":"BAD_REFRESH_TOKEN","message":"missing or unknown refresh token"}"#),
            (200, #"{"errcode":40030,"errmsg":"invalid refresh_token"}"#), (200, #"{"errcode":"40030"}"#),
            (400, #"{"errors":["Refresh token is invalid"]}"#),
            (400, #"{"status":"BAD_REFRESH_TOKEN","access_token":null}"#),
        ])
    func named(_ status: Int, _ body: String) async throws {
        let found = try await failures(status, body)
        #expect(isDead(found.refresh), "\(body) \(String(describing: found.refresh))")
    }
}
