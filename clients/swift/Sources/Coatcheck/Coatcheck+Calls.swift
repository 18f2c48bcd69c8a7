import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension Coatcheck {
    /// Returns the stored credentials, or empty credentials.
    func kept() throws -> Credentials { try storage.read() ?? Credentials() }

    /// Makes a request with these credentials, but without evidence.
    func request(_ call: Call, of credentials: Credentials) throws -> URLRequest {
        let text = broker.absoluteString
        let base = text.hasSuffix("/") ? String(text.dropLast()) : text
        guard let url = URL(string: base + call.path + (call.query.map { "?\($0)" } ?? "")) else {
            throw CoatcheckError.badPath
        }
        var request = URLRequest(url: url)
        request.httpMethod = call.method
        request.httpBody = call.body
        request.timeoutInterval = 40
        request.httpShouldHandleCookies = false
        for (name, value) in call.fields { request.setValue(value, forHTTPHeaderField: name) }
        if let session = credentials.session, credentials.transport == .bearer, call.needed == .both {
            request.setValue("Bearer \(session)", forHTTPHeaderField: "Authorization")
        }
        if credentials.transport == .cookie {
            let names = CookieNames(broker)
            var cookies: [String] = []
            if let session = credentials.session, call.needed == .both { cookies.append("\(names.session)=\(session)") }
            if let login = credentials.login { cookies.append("\(names.login)=\(login)") }
            if !cookies.isEmpty { request.setValue(cookies.joined(separator: "; "), forHTTPHeaderField: "Cookie") }
        }
        return request
    }

    /// Calls the broker with a JSON body, as sign-ins do.
    func call(
        _ method: String, _ path: String, body: some Encodable, with needed: Call.Needed = .both,
        evidence: Call.Evidence = .signIn
    ) async throws -> Answer {
        try await call(
            Call(
                method: method, path: path, fields: ["Content-Type": "application/json"],
                body: try JSONEncoder().encode(body), needed: needed, evidence: evidence))
    }

    /// Calls the broker.
    ///
    /// Repeats the call as long as a repetition can help and `patience` allows it.
    ///
    /// Every call of the API may be repeated. A repeated forward returns the same session, a repeated start returns
    /// another login, and a repeated ending returns the same result.
    func call(_ call: Call, patience: Patience? = nil) async throws -> Answer {
        let patience = patience ?? self.patience
        var begin = ContinuousClock.now
        var number = 0
        var mending = Mending()
        while true {
            try Task.checkCancellation()
            // The time that the user needs for the prompt does not count for the deadline.
            if try await asks(for: call, &mending) { begin = .now }
            let stepUps = self.stepUps
            var weak: Problem?
            var retryAfter: Duration?
            var failure: any Error = CoatcheckError.unreachable
            do {
                // The first attempt gets at least one second, even if `patience` allows less.
                let limit = max(patience.left(since: begin), number == 0 ? .seconds(1) : .zero)
                let mended = mending
                let (request, answer) = try await within(limit) { try await self.sent(call, mended) }
                if (200..<300).contains(answer.status) {
                    if call.credentials == nil { endSessions() }
                    return answer
                }
                guard let problem = answer.problem else {
                    // After a proxy's 502, 503 or 504, the state of the session is as unknown as after a missing response.
                    guard (502...504).contains(answer.status) else {
                        throw CoatcheckError.notTheBroker(status: answer.status)
                    }
                    throw CoatcheckError.unreachable
                }
                try learn(from: problem, answer, sent: request)
                if try mends(problem, of: call, &mending, sent: request) { continue }
                if problem.code == .stepUpRequired { weak = problem } else if !problem.passes { throw problem }
                (retryAfter, failure) = (answer.retryAfter, problem)
            } catch CoatcheckError.unreachable {
            } catch let problem as Problem where problem.passes {
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

    /// Sends a call once.
    func sent(_ call: Call, _ mending: Mending) async throws -> (request: URLRequest, answer: Answer) {
        let request = try await prepared(call, mending)
        let answer = try await wire.send(request)
        keepNonce(answer.fields)
        return (request, answer)
    }

    /// Runs the work, but gives up after the time limit.
    nonisolated func within<Value: Sendable>(
        _ limit: Duration, _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Value.self) { group in
            group.addTask(operation: work)
            group.addTask {
                try await Task.sleep(for: limit)
                throw CoatcheckError.unreachable
            }
            defer { group.cancelAll() }
            guard let value = try await group.next() else { throw CancellationError() }
            return value
        }
    }

    /// Ends, in the background, the sessions that were signed out on this device and that the broker still has to end.
    func endSessions() {
        guard !endingSessions, let endings = try? kept().endings, !endings.isEmpty else { return }
        endingSessions = true
        Task {
            for ending in endings { _ = try? await end(ending) }
            endingSessions = false
        }
    }

    /// Ends a session at the broker that was signed out on this device, and deletes its stored secret.
    ///
    /// With the credentials from before the sign-out, it also requests the page that signs the user out at the provider.
    @discardableResult
    func end(_ ending: Credentials.Ending, shownBy before: Credentials? = nil) async throws -> Answer {
        var credentials = Credentials()
        (credentials.session, credentials.transport) = (ending.session, ending.transport)
        var call = Call(method: "DELETE", path: "/v1/session", evidence: .none)
        if let before {
            // Without evidence, the broker ends the session but does not return the provider's logout page.
            (credentials.pass, credentials.lastSession) = (before.pass, before.lastSession)
            (call.query, call.evidence) = ("logout_url=true", .session)
        }
        call.credentials = credentials
        let answer = try await self.call(call)
        var kept = try kept()
        kept.endings.removeAll { $0 == ending }
        try keepOrForget(kept)
        return answer
    }

    /// Stores the credentials, or deletes the stored credentials if these are empty.
    func keepOrForget(_ credentials: Credentials) throws {
        try storage.write(credentials.isEmpty ? nil : credentials)
    }

    /// Deletes the stored session if the broker reports its end, and stores the login that a refusal may contain.
    func learn(from problem: Problem, _ answer: Answer, sent request: URLRequest) throws {
        if problem.endsSession { try forget(asSentIn: request) }
        if let login = problem.login { try keep(login, from: answer) }
    }

    /// Deletes the stored session if this request sent its secret; another session may have replaced it since then.
    func forget(asSentIn request: URLRequest) throws {
        guard let session = try storage.read()?.session else { return }
        let sent = ["Cookie", "Authorization"].compactMap { request.value(forHTTPHeaderField: $0) }
        if sent.contains(where: { $0.contains(session) }) { try forget(session) }
    }

    /// Deletes the stored session, unless another session has replaced the given one.
    func forget(_ session: String?) throws {
        guard var credentials = try storage.read(), credentials.session == session else { return }
        credentials.session = nil
        credentials.pass = nil
        credentials.lastSession = nil
        try storage.write(credentials)
    }
}
