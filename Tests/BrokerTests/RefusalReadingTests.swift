import Testing

@testable import Broker

/// The meaning of a provider's refusal for each kind of token call, as a table (guarantee 2).
@Suite("The meaning of a refusal", .timeLimit(.minutes(1))) struct RefusalReadingTests {
    typealias Input = RefreshStateMachine.Input

    private func read(
        _ call: RefreshCall, _ failure: ProviderFailure, isConfirming: Bool = false, mayBeSpent: Bool = false,
        isEnough: Bool = false, hasRefreshToken: Bool = true
    ) -> Input {
        RefusalReading(
            call: call, isConfirming: isConfirming, mayBeSpent: mayBeSpent, isEnough: isEnough,
            hasRefreshToken: hasRefreshToken
        ).input(for: failure)
    }

    private func refusal(
        _ code: String, status: Int = 400, isNamed: Bool = true, _ change: (inout OAuthError) -> Void = { _ in }
    ) -> ProviderFailure {
        var error = OAuthError(status: status, code: code, isNamed: isNamed)
        change(&error)
        return .rejected(error)
    }

    @Test(
        "A call fails in a way that refuses neither grant nor target → the machine gets the same event for each kind of call",
        arguments: [RefreshCall.plain, .targeted, .exchange])
    func failures(_ call: RefreshCall) {
        #expect(read(call, .notSent(detail: "")) == .notSent)
        #expect(read(call, .retryable(status: 503, retryAfter: nil, detail: "")) == .retryable)
        #expect(read(call, .unusable(detail: "")) == .unusable)
        #expect(read(call, .identityRejected(detail: "")) == .unusable)
        #expect(read(call, .lost(detail: "")) == .lost)
        #expect(read(call, refusal("invalid_dpop_proof")) == .unusable)
        #expect(read(call, refusal("use_dpop_nonce")) == .unusable)
    }

    /// The meaning of each error code for three calls: a plain refresh, a refresh with a target, and a token exchange.
    private static let table: [(code: String, plain: Input, target: Input, exchange: Input)] = [
        ("invalid_grant", .rejected(.invalidGrant), .rejected(.invalidGrant), .rejected(.invalidGrant)),
        (
            "", .rejected(.counted(enough: false)), .rejected(.counted(enough: false)), .rejected(.invalidGrant)
        ),
        (
            "invalid_request", .rejected(.counted(enough: false)), .rejected(.counted(enough: false)),
            .rejected(.invalidGrant)
        ),
        ("invalid_client", .rejected(.unclear), .rejected(.unclear), .rejected(.target)),
        ("unauthorized_client", .rejected(.unclear), .rejected(.target), .rejected(.target)),
        ("invalid_target", .rejected(.counted(enough: false)), .rejected(.target), .rejected(.target)),
        ("invalid_scope", .rejected(.counted(enough: false)), .rejected(.target), .rejected(.target)),
        ("consent_required", .rejected(.counted(enough: false)), .rejected(.target), .rejected(.target)),
        ("temporarily_unavailable", .rejected(.unclear), .rejected(.unclear), .rejected(.unclear)),
        ("slow_down", .rejected(.unclear), .rejected(.unclear), .rejected(.unclear)),
    ]

    @Test(
        "A provider's error code → has its own meaning for a plain refresh, a refresh with a target, and a token exchange"
    )
    func meanings() {
        for (code, plain, target, exchange) in Self.table {
            #expect(read(.plain, refusal(code)) == plain, "\(code)")
            #expect(read(.targeted, refusal(code)) == target, "\(code)")
            #expect(read(.exchange, refusal(code)) == exchange, "\(code)")
        }
    }

    @Test(
        "A refresh, with or without a target, has had enough refusals that may mean a dead grant → they prove a dead grant"
    )
    func enough() {
        for call in [RefreshCall.plain, .targeted] {
            #expect(read(call, refusal("", status: 401), isEnough: true) == .rejected(.counted(enough: true)))
            #expect(read(call, refusal("invalid_request"), isEnough: true) == .rejected(.counted(enough: true)))
            // Two refusals are never counted: an `invalid_request` whose name comes from the broker itself, and an
            // `invalid_request` with status 403.
            #expect(read(call, refusal("invalid_request", isNamed: false), isEnough: true) == .rejected(.unclear))
            #expect(read(call, refusal("invalid_request", status: 403), isEnough: true) == .rejected(.unclear))
        }
    }

    @Test(
        "An `invalid_grant` may concern the call's proof or certificate → only counted; it does not prove a dead grant"
    )
    func doubted() {
        for doubt in [OAuthError.Doubt.noProof, .otherCertificate] {
            let failure = refusal("invalid_grant") { $0.doubt = doubt }
            #expect(read(.plain, failure) == .rejected(.counted(enough: false)))
            #expect(read(.plain, failure, mayBeSpent: true) == .rejected(.counted(enough: false)))
            #expect(read(.targeted, failure) == .rejected(.counted(enough: false)))
        }
        // Keycloak gives this answer if the grant is bound to another certificate.
        let keycloak = refusal("unauthorized_client") { $0.doubt = .otherCertificate }
        #expect(read(.plain, keycloak) == .rejected(.counted(enough: false)))
        #expect(read(.targeted, keycloak) == .rejected(.counted(enough: false)))
    }

    @Test(
        "A refresh that may have used up its token gets `invalid_grant` → read as a lost answer, but on a repeat as a refusal"
    )
    func spent() {
        #expect(read(.plain, refusal("invalid_grant"), mayBeSpent: true) == .lost)
        #expect(
            read(.plain, refusal("invalid_grant"), isConfirming: true, mayBeSpent: true) == .rejected(.invalidGrant))
        let old = refusal("invalid_grant") { $0.isOfOldProof = true }
        #expect(read(.plain, old) == .rejected(.unclear))
        #expect(read(.plain, old, mayBeSpent: true) == .lost)
    }

    @Test("A token exchange is refused, and the session has no refresh token → the refusal concerns the target")
    func exchangeWithoutRefreshToken() {
        for code in ["invalid_grant", "", "invalid_request"] {
            #expect(read(.exchange, refusal(code), hasRefreshToken: false) == .rejected(.target))
        }
    }
}
