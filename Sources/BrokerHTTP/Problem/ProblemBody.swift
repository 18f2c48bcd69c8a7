import Broker

/// Writes problem documents (RFC 9457).
///
/// Problem documents are made only here.
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
            if let retry = problem.retry { writer.member("retry", retry) }
            Self.members(of: problem.payload, code, into: &writer)
        }
        return writer.bytes
    }

    /// Writes the members of a problem's payload.
    private static func members(of payload: ProblemPayload, _ code: ProblemCode, into writer: inout JSONWriter) {
        switch payload {
        case .none: break
        case .fields(let faults): errors(faults, into: &writer)
        case .ended(let reason):
            if let reason { writer.member("reason", reason.shown.rawValue) }
        case .login(let login):
            writer.name("login")
            writer.object { StartedLoginBody.members(of: login, into: &$0) }
        case .importFailed(let reason):
            writer.name("login")
            writer.null()
            writer.member("reason", reason.rawValue)
        case .importRefused(let refusal): writer.member("reason", refusal.rawValue)
        case .proof(let refusal):
            if let reason = refusal.reason { writer.member("reason", reason) }
        case .presence(let refusal):
            if let reason = refusal.reason { writer.member("reason", reason) }
            guard code == .presenceRequired else { break }
            writer.name("step_up")
            writer.object { $0.member("presence", true) }
            if refusal.isOfParent { writer.member("parent", true) }
        case .stepUp(let wanted):
            writer.name("step_up")
            writer.object { StepUpBody.members(of: wanted.demand, into: &$0) }
            if wanted.isOfParent { writer.member("parent", true) }
        case .shortfall(let shortfall):
            if shortfall.isUpstreams { writer.member("reason", "upstream") }
            StepUpBody.members(of: shortfall, into: &writer)
        case .providerError(let word): writer.member("provider_error", word)
        }
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
