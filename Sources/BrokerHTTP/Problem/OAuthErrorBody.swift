import Broker

/// Writes the errors of introspection and token exchange as OAuth's (RFC 6749 section 5.2), so that client libraries
/// understand them; our own code stands beside.
enum OAuthErrorBody {
    /// Returns the OAuth error of a problem, and the status it goes out with.
    static func render(_ problem: BrokerProblem) -> (status: Int, bytes: [UInt8]) {
        let (error, status) = name(problem.code)
        let detail = problem.detail ?? problem.code.standardDetail
        return (status, bytes(error, code: problem.code, detail: detail, reason: problem.proof?.reason))
    }

    /// Returns an error document.
    static func bytes(_ error: String, code: ProblemCode, detail: String, reason: String? = nil) -> [UInt8] {
        var writer = JSONWriter(capacity: 160)
        writer.object { writer in
            writer.member("error", error)
            writer.member("error_description", detail)
            writer.member("code", code.rawValue)
            if let reason { writer.member("reason", reason) }
        }
        return writer.bytes
    }

    private static func name(_ code: ProblemCode) -> (String, Int) {
        switch code {
        case .backendUnauthorized: ("invalid_client", 401)
        case .backendNotAllowed: ("unauthorized_client", 403)
        // The session is the grant here: a dead one is 400, not 401, which would be the caller's fault.
        case .sessionRequired, .sessionEnded, .notRefreshable, .loginRequired, .proofRequired, .useDPoPNonce,
            .proofInvalid:
            ("invalid_grant", 400)
        case .rateLimited, .providerUnavailable, .storeUnavailable, .upstreamBusy, .shuttingDown, .upstreamTimeout:
            ("temporarily_unavailable", code.status)
        case .internalError, .providerError, .identityRejected, .upstreamError: ("server_error", code.status)
        default: ("invalid_request", code.status)
        }
    }
}
