import Broker

/// Writes problem documents (RFC 9457).
///
/// Problems are converted into bytes only here.
enum ProblemBody {
    /// Returns the document's bytes.
    ///
    /// `privateDetail` is left out.
    static func bytes(_ problem: BrokerProblem, requestID: String) -> [UInt8] {
        var writer = JSONWriter(capacity: 256)
        writer.object { writer in
            let code = problem.code
            writer.member("type", "urn:coatcheck:problem:" + code.rawValue)
            writer.member("title", code.title)
            writer.member("status", Int64(code.status))
            writer.member("code", code.rawValue)
            writer.member("detail", problem.detail ?? code.standardDetail)
            writer.member("request_id", requestID)
            Self.errors(problem.errors, into: &writer)
            if let reason = problem.proof?.reason ?? problem.presence?.reason { writer.member("reason", reason) }
            if let reason = problem.reason { writer.member("reason", reason.rawValue) }
            if problem.shortfall?.isUpstreams == true { writer.member("reason", "upstream") }
            if let retry = problem.retry { writer.member("retry", retry) }
            if let word = problem.providerError { writer.member("provider_error", word) }
            if let shortfall = problem.shortfall { StepUpBody.members(of: shortfall, into: &writer) }
            if let wanted = problem.wanted {
                writer.name("step_up")
                writer.object { StepUpBody.members(of: wanted.demand, into: &$0) }
                if wanted.isOfParent { writer.member("parent", true) }
            }
            if let refusal = problem.presence, problem.code == .presenceRequired {
                writer.name("step_up")
                writer.object { $0.member("presence", true) }
                if refusal.isOfParent { writer.member("parent", true) }
            }
            if let login = problem.login {
                writer.name("login")
                writer.object { StartedLoginBody.members(of: login, into: &$0) }
            }
        }
        return writer.bytes
    }

    /// Writes the faults for each field, if there are any.
    static func errors(_ faults: [FieldFault], into writer: inout JSONWriter) {
        guard !faults.isEmpty else { return }
        writer.name("errors")
        writer.array { writer in
            for fault in faults {
                writer.object { writer in
                    writer.member("pointer", fault.pointer)
                    writer.member("code", fault.code.rawValue)
                }
            }
        }
    }
}

/// Writes the errors of introspection and token exchange in the form of OAuth (RFC 6749 section 5.2).
///
/// Client libraries of OAuth understand this form. The broker's own code is included as well.
enum OAuthErrorBody {
    /// Returns the OAuth error of a problem, and its status.
    static func render(_ problem: BrokerProblem) -> (status: Int, bytes: [UInt8]) {
        let (error, status) = name(problem.code)
        let detail = problem.detail ?? problem.code.standardDetail
        return (
            status,
            bytes(
                error, code: problem.code, detail: detail, reason: problem.proof?.reason,
                wanted: problem.wanted?.demand, errors: problem.errors)
        )
    }

    /// Returns an error document.
    static func bytes(
        _ error: String, code: ProblemCode, detail: String, reason: String? = nil, wanted: StepUpDemand? = nil,
        errors: [FieldFault] = []
    ) -> [UInt8] {
        var writer = JSONWriter(capacity: 160)
        writer.object { writer in
            writer.member("error", error)
            writer.member("error_description", detail)
            writer.member("code", code.rawValue)
            if let reason { writer.member("reason", reason) }
            ProblemBody.errors(errors, into: &writer)
            if let wanted { StepUpBody.members(of: wanted, into: &writer) }
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
