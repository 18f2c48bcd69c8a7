import Broker

/// Writes the errors of introspection and token exchange as OAuth's (RFC 6749 section 5.2), so that client libraries
/// understand them; our own code stands beside.
enum OAuthErrorBody {
    /// Is an OAuth error with the status it goes out with.
    struct Rendered {
        let status: Int
        let bytes: [UInt8]
    }

    static func render(_ problem: BrokerProblem) -> Rendered {
        let (error, status) = name(problem)
        var writer = JSONWriter(capacity: 160)
        writer.object { writer in
            writer.member("error", error)
            writer.member("error_description", problem.detail ?? problem.code.standardDetail)
            writer.member("code", problem.code.rawValue)
        }
        return Rendered(status: status, bytes: writer.bytes)
    }

    private static func name(_ problem: BrokerProblem) -> (String, Int) {
        // A token request whose grant, and not whose form, is at fault says so by its retry hint.
        if let special = problem.retry, special == unsupportedGrantType || special == invalidTarget {
            return (special, 400)
        }
        return switch problem.code {
        case .backendUnauthorized: ("invalid_client", 401)
        case .backendNotAllowed: ("unauthorized_client", 403)
        // The session is the grant (DESIGN section 3.2): a dead one is 400, not 401, which would be the caller's fault.
        case .sessionRequired, .sessionEnded, .notRefreshable, .loginRequired: ("invalid_grant", 400)
        case .rateLimited, .providerUnavailable, .storeUnavailable, .shuttingDown, .upstreamTimeout:
            ("temporarily_unavailable", problem.code.status)
        case .internalError, .providerError, .identityRejected, .upstreamError: ("server_error", problem.code.status)
        default: ("invalid_request", problem.code.status)
        }
    }

    static let unsupportedGrantType = "unsupported_grant_type"
    static let invalidTarget = "invalid_target"
}
