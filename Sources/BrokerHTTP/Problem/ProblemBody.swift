import Broker

/// Writes problem documents (RFC 9457): the one place where a problem becomes bytes.
enum ProblemBody {
    /// Returns the document's bytes.
    ///
    /// Nothing of `privateDetail` is in it.
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
            if !problem.errors.isEmpty {
                writer.name("errors")
                writer.array { writer in
                    for fault in problem.errors {
                        writer.object { writer in
                            writer.member("pointer", fault.pointer)
                            writer.member("code", fault.code.rawValue)
                        }
                    }
                }
            }
            if let reason = problem.proof?.reason { writer.member("reason", reason) }
            if let reason = problem.reason { writer.member("reason", reason.rawValue) }
            if let retry = problem.retry { writer.member("retry", retry) }
            if let word = problem.providerError { writer.member("provider_error", word) }
            if let login = problem.login {
                writer.name("login")
                writer.object { StartedLoginBody.members(of: login, into: &$0) }
            }
        }
        return writer.bytes
    }
}
