import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension Coatcheck {
    /// Calls an upstream API with the session's access token, which the app never sees.
    ///
    /// Returns every response of the upstream, including its 401, which never ends the session. Throws the broker's
    /// refusals. If a call may have reached the upstream, it is repeated only if its method is idempotent.
    ///
    /// If the broker demands the user's presence (`presence_required`), the presence key asks the user. Only one prompt
    /// is open at a time. With `presence: true`, the key asks before the first request. This saves one request if the
    /// demand is certain.
    public func relay(
        _ upstream: String, _ path: String, method: String = "GET", query: String? = nil,
        fields: [String: String] = [:], body: Data? = nil, presence: Bool = false
    ) async throws -> RelayAnswer {
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        guard
            !segments.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." || $0.contains("?") || $0.contains("#") })
        else { throw CoatcheckError.badPath }
        let idempotent = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"].contains(method)
        let call = Call(
            method: method, path: "/v1/relay/\(upstream)/\(path)", query: query, fields: fields, body: body,
            isIdempotent: idempotent, presence: presence ? .shown : .onDemand)
        var begin = ContinuousClock.now
        var number = 0
        var mending = Mending()
        while true {
            // The time that the user needs for the prompt does not count for the deadline.
            if try await asks(for: call, &mending) { begin = .now }
            let stepUps = self.stepUps
            var weak: Problem?
            var retryAfter: Duration?
            var failure: any Error = CoatcheckError.unreachable
            do {
                let (request, answer) = try await sent(call, mending)
                guard answer.fields["coatcheck-source"] == "broker" || answer.fields["coatcheck-source"] == nil,
                    let problem = answer.problem
                else {
                    guard answer.fields["coatcheck-source"] != nil else { throw CoatcheckError.unreachable }
                    return RelayAnswer(status: answer.status, fields: answer.fields, body: answer.body)
                }
                try learn(from: problem, answer, sent: request)
                if try mends(problem, of: call, &mending, sent: request) { continue }
                if problem.code == .stepUpRequired {
                    weak = problem
                } else if !problem.passes || (!idempotent && problem.code == .requestTimeout) {
                    // After a 408, the upstream may have received part of the request. After the broker's 503 or 429, it has
                    // received nothing.
                    throw problem
                }
                (retryAfter, failure) = (answer.retryAfter, problem)
            } catch CoatcheckError.unreachable {
                guard idempotent else { throw CoatcheckError.unreachable }
            } catch let problem as Problem where problem.passes && idempotent {
                failure = problem
            }
            if let weak {
                try await stepUp(for: weak, of: call, &mending, sentAfter: stepUps)
                (begin, number) = (.now, 0)
                continue
            }
            guard let pause = patience.pause(try: number, since: begin, retryAfter: retryAfter) else { throw failure }
            try await Task.sleep(for: pause)
            number += 1
        }
    }
}
