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
