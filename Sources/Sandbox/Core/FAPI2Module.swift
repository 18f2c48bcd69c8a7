/// One module of the OpenID Foundation's test plan for clients (`fapi2-security-profile-final-client-test-plan`), as
/// settings and faults of a provider.
///
/// The list has the plan's 23 modules for plain responses. Modules of other plans (JARM, grant management) and of single
/// markets are left out.
struct FAPI2Module: Sendable {
    /// The variants of `sender_constrain` in the plan.
    enum Constraint: String, Sendable { case dpop, mtls }

    /// The `testName` of the module.
    let name: String
    var faults: [Fault] = []
    /// Whether the server sends nonces in its answers, and requires them in proofs.
    var hasNonces = true
    /// Whether the plan has this module also for tokens that are bound to certificates.
    var appliesToCertificates = true

    private static let prefix = "fapi2-security-profile-final-client-"

    static func named(_ name: String) -> FAPI2Module? { all.first { $0.name == name } }

    /// All modules, in the plan's order.
    static let all: [FAPI2Module] = [
        plain("test-happy-path"),
        faulty("test-discovery-issuer-mismatch", "discovery", "discovery-issuer-mismatch"),
        faulty("test-invalid-iss", "token", "invalid-iss"), faulty("test-invalid-aud", "token", "invalid-aud"),
        faulty("test-invalid-secondary-aud", "token", "invalid-secondary-aud"),
        faulty("test-invalid-null-alg", "token", "idtoken-sig-none"),
        faulty("test-invalid-alternate-alg", "token", "alg", value: "RS256"),
        faulty("test-invalid-expired-exp", "token", "expired"),
        faulty("test-invalid-missing-exp", "token", "missing-exp"),
        faulty("test-invalid-missing-aud", "token", "missing-aud"),
        faulty("test-invalid-missing-iss", "token", "missing-iss"),
        faulty("test-valid-aud-as-array", "token", "aud-array"),
        faulty("test-invalid-nonce", "token", "nonce-invalid"),
        faulty("test-invalid-missing-nonce", "token", "nonce-missing"),
        faulty("test-invalid-authorization-response-iss", "authorize", "wrong-iss-callback"),
        faulty("test-remove-authorization-response-iss", "authorize", "no-iss-callback"),
        faulty("test-ensure-authorization-response-with-invalid-state-fails", "authorize", "wrong-state-callback"),
        faulty("test-ensure-authorization-response-with-invalid-missing-state-fails", "authorize", "no-state-callback"),
        faulty("test-token-endpoint-response-without-expires_in", "token", "no-expires-in"),
        faulty("test-token-type-case-insensitivity", "token", "token-type-inverted"), schemeCase, noNonce, refreshed,
    ]

    private static func plain(_ name: String) -> FAPI2Module { FAPI2Module(name: prefix + name) }

    private static func faulty(_ name: String, _ endpoint: String, _ fault: String, value: JSON? = nil) -> FAPI2Module {
        var module = plain(name)
        module.faults = [Fault(provider: "", endpoint: endpoint, fault, value: value)]
        return module
    }

    /// The API demands a nonce by a challenge whose scheme has unusual letter case (`dpOp`).
    private static var schemeCase: FAPI2Module {
        var module = plain("test-rs-dpop-auth-scheme-case-insensitivity")
        module.faults = [Fault(provider: "api", endpoint: "api", "inverted-scheme")]
        module.appliesToCertificates = false
        return module
    }

    private static var noNonce: FAPI2Module {
        var module = plain("test-happy-path-no-dpop-nonce")
        module.hasNonces = false
        module.appliesToCertificates = false
        return module
    }

    /// The resource refuses three calls with 401.
    ///
    /// The broker repeats a refused call once, after a refresh. So the app's first call fails, and its second call succeeds.
    private static var refreshed: FAPI2Module {
        var module = plain("refresh-token-test")
        module.faults = [
            Fault(
                provider: "api", endpoint: "api", "status", times: 3, status: 401,
                headers: [("WWW-Authenticate", #"Bearer realm="sandbox", error="invalid_token""#)])
        ]
        return module
    }

    /// Configures a provider for exactly this module; returns false if the plan has this module only for the other kind of
    /// bound tokens.
    func play(at provider: String, _ constraint: Constraint, _ sandbox: SandboxControl) -> Bool {
        guard constraint == .dpop || appliesToCertificates else { return false }
        let isProof = constraint == .dpop
        let nonces: JSON = isProof && hasNonces ? "change" : "off"
        sandbox.clearFaults(provider: provider)
        sandbox.clearFaults(provider: "api")
        sandbox.set(
            settings: [
                "profile": "fapi2", "dpop": isProof ? "require" : "off", "nonces": nonces, "require_par": true,
                "require_pkce": true, "iss_parameter": true, "code_lifetime": 60, "refresh_mode": "rotate-strict",
            ], of: provider)
        sandbox.set(settings: ["nonces": nonces], of: "api")
        for var fault in faults {
            if fault.provider.isEmpty { fault.provider = provider }
            try? sandbox.place(fault)
        }
        return true
    }
}
