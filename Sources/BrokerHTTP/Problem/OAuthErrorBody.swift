import Broker

/// Writes the errors of introspection and token exchange in OAuth's format (RFC 6749 section 5.2).
///
/// Client libraries of OAuth understand this format. The document also contains the broker's own code.
enum OAuthErrorBody {
    /// Returns the OAuth error of a problem, and its status.
    static func render(_ problem: BrokerProblem) -> (status: Int, bytes: [UInt8]) {
        let (error, status) = name(problem.code)
        return (
            status,
            bytes(
                error, code: problem.code, detail: problem.detail ?? problem.code.standardDetail,
                payload: problem.payload)
        )
    }

    /// Returns an error document.
    static func bytes(
        _ error: String, code: ProblemCode, detail: String, payload: ProblemPayload = .none
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 160)
        writer.object { writer in
            writer.member("error", error)
            writer.member("error_description", detail)
            writer.member("code", code.rawValue)
            switch payload {
            case .proof(let refusal):
                if let reason = refusal.reason { writer.member("reason", reason) }
            case .fields(let faults): ProblemBody.errors(faults, into: &writer)
            case .stepUp(let wanted): StepUpBody.members(of: wanted.demand, into: &writer)
            case .none, .ended, .login, .importFailed, .importRefused, .shortfall, .presence, .providerError: break
            }
        }
        return writer.bytes
    }

    private static func name(_ code: ProblemCode) -> (String, Int) {
        switch code {
        case .backendUnauthorized: ("invalid_client", 401)
        case .backendNotAllowed: ("unauthorized_client", 403)
        // The session is the grant here, so an ended session is a 400. A 401 would blame the caller's own credential.
        case .sessionRequired, .sessionEnded, .notRefreshable, .loginRequired, .proofRequired, .useDPoPNonce,
            .proofInvalid:
            ("invalid_grant", 400)
        // The error code of RFC 9470. Its challenge is for resource servers, so a token endpoint can send only the code.
        case .stepUpRequired: ("insufficient_user_authentication", 400)
        case .stepUpFailed: ("access_denied", 403)
        case .rateLimited, .providerUnavailable, .storeUnavailable, .upstreamBusy, .upstreamNonce,
            .shuttingDown, .upstreamTimeout:
            ("temporarily_unavailable", code.status)
        case .internalError, .providerError, .identityRejected, .upstreamError: ("server_error", code.status)
        default: ("invalid_request", code.status)
        }
    }
}
