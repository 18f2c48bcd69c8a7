import Testing

@testable import Broker

/// The meaning of a failed import call, as a table (docs/guarantees.md).
@Suite("The meaning of a failed import call", .timeLimit(.minutes(1))) struct ImportReadingTests {
    typealias Fate = ImportReading.Fate

    private func fate(_ failure: ProviderFailure, isConfirming: Bool = false, isEnough: Bool = false) -> Fate {
        ImportReading(isConfirming: isConfirming, isEnough: isEnough).fate(of: failure)
    }

    private func refusal(_ code: String, status: Int = 400, isNamed: Bool = true) -> ProviderFailure {
        .rejected(OAuthError(status: status, code: code, isNamed: isNamed))
    }

    @Test(
        "An import call fails before it is sent, or in passing → released, also for the confirming call",
        arguments: [false, true])
    func passing(_ isConfirming: Bool) {
        let failures: [ProviderFailure] = [
            .notSent(detail: ""), .retryable(status: 503, retryAfter: nil, detail: ""),
            .retryable(status: 429, retryAfter: .seconds(9), detail: ""), .unusable(detail: ""),
            .identityRejected(detail: ""),
        ]
        for failure in failures {
            #expect(fate(failure, isConfirming: isConfirming, isEnough: true) == .released, "\(failure)")
        }
    }

    @Test(
        "The answer to an import call is lost → lost; the answer to the confirming call, too → spent as `refresh_lost`")
    func lost() {
        #expect(fate(.lost(detail: "")) == .lost)
        #expect(fate(.lost(detail: ""), isConfirming: true) == .spent(.refreshLost))
    }

    @Test("An import is refused with `invalid_grant` → `grant_revoked`; the confirming call is → `refresh_lost`")
    func dead() {
        #expect(fate(refusal("invalid_grant")) == .spent(.grantRevoked))
        #expect(fate(refusal("invalid_grant", status: 401, isNamed: false)) == .spent(.grantRevoked))
        #expect(fate(refusal("invalid_grant"), isConfirming: true) == .spent(.refreshLost))
    }

    @Test(
        "An import is refused because of the broker's client or proof → released, however often",
        arguments: [
            "invalid_client", "unauthorized_client", "invalid_dpop_proof", "use_dpop_nonce", "server_error",
        ])
    func client(_ code: String) {
        for isConfirming in [false, true] {
            #expect(fate(refusal(code), isConfirming: isConfirming, isEnough: true) == .released)
        }
    }

    @Test("An import is refused with an empty body or with another OAuth error → counted; often enough → spent")
    func counted() {
        for failure in [refusal("", status: 401), refusal("invalid_request"), refusal("invalid_token", status: 401)] {
            #expect(fate(failure) == .counted)
            #expect(fate(failure, isEnough: true) == .spent(.grantRevoked))
            #expect(fate(failure, isConfirming: true) == .counted)
            #expect(fate(failure, isConfirming: true, isEnough: true) == .spent(.refreshLost))
        }
        // The broker chose the code, because the answer has another form.
        #expect(fate(refusal("invalid_request", isNamed: false), isEnough: true) == .released)
        #expect(fate(refusal("invalid_request", status: 403), isEnough: true) == .released)
    }

    @Test("`invalid_grant` may concern the certificate that was shown → counted")
    func doubted() {
        let failure = refusal("invalid_grant").doubted(.otherCertificate)
        #expect(fate(failure) == .counted)
        #expect(fate(failure, isEnough: true) == .spent(.grantRevoked))
    }
}
