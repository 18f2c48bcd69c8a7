import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

extension Coatcheck {
    /// Returns what is kept, or empty credentials.
    func kept() throws -> Credentials { try storage.read() ?? Credentials() }

    /// Which of the credentials a call needs.
    enum Needed { case login, both }

    /// Makes a request with the device's credentials, or with others.
    func request(
        _ method: String, _ path: String, query: String? = nil, body: Data? = nil, with needed: Needed = .both,
        as credentials: Credentials? = nil
    ) throws -> URLRequest {
        let text = broker.absoluteString
        let base = text.hasSuffix("/") ? String(text.dropLast()) : text
        guard let url = URL(string: base + path + (query.map { "?\($0)" } ?? "")) else { throw CoatcheckError.badPath }
        var request = URLRequest(url: url)
        request.httpMethod = method
        request.httpBody = body
        request.timeoutInterval = 40
        request.httpShouldHandleCookies = false
        let credentials = try credentials ?? kept()
        if let session = credentials.session, credentials.transport == .bearer, needed == .both {
            request.setValue("Bearer \(session)", forHTTPHeaderField: "Authorization")
        }
        if credentials.transport == .cookie {
            let names = CookieNames(broker)
            var cookies: [String] = []
            if let session = credentials.session, needed == .both { cookies.append("\(names.session)=\(session)") }
            if let login = credentials.login { cookies.append("\(names.login)=\(login)") }
            if !cookies.isEmpty { request.setValue(cookies.joined(separator: "; "), forHTTPHeaderField: "Cookie") }
        }
        return request
    }

    /// Calls the broker with a JSON body.
    func call(_ method: String, _ path: String, body: some Encodable, with needed: Needed = .both) async throws
        -> Answer
    {
        try await call(method, path, data: try JSONEncoder().encode(body), with: needed)
    }

    /// Calls the broker, again as long as that helps and patience lasts.
    ///
    /// Every call of the API may be repeated: a forward gives the same session, a start another login, an ending
    /// what it gave before.
    func call(
        _ method: String, _ path: String, query: String? = nil, data: Data? = nil, with needed: Needed = .both,
        as credentials: Credentials? = nil, patience: Patience? = nil
    ) async throws -> Answer {
        let patience = patience ?? self.patience
        let begin = ContinuousClock.now
        var number = 0
        while true {
            try Task.checkCancellation()
            var request = try request(method, path, query: query, body: data, with: needed, as: credentials)
            if data != nil { request.setValue("application/json", forHTTPHeaderField: "Content-Type") }
            var retryAfter: Duration?
            var failure: any Error = CoatcheckError.unreachable
            do {
                let sent = request
                // However short patience is, the first try has its second.
                let limit = max(patience.left(since: begin), number == 0 ? .seconds(1) : .zero)
                let answer = try await within(limit) { [wire] in try await wire.send(sent) }
                if (200..<300).contains(answer.status) {
                    if credentials == nil { endSessions() }
                    return answer
                }
                guard let problem = answer.problem else {
                    // A proxy's 502 to 504 says as little about the session as no answer at all.
                    guard (502...504).contains(answer.status) else {
                        throw CoatcheckError.notTheBroker(status: answer.status)
                    }
                    throw CoatcheckError.unreachable
                }
                try learn(from: problem, answer, sent: request)
                guard problem.passes else { throw problem }
                (retryAfter, failure) = (answer.retryAfter, problem)
            } catch CoatcheckError.unreachable {}
            guard let pause = patience.pause(try: number, since: begin, retryAfter: retryAfter) else { throw failure }
            try await Task.sleep(for: pause)
            number += 1
        }
    }

    /// Does the work, and gives up when the time has passed.
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

    /// Tells the broker, in the background, of the sessions that were signed out while it could not be told.
    func endSessions() {
        guard !endingSessions, let endings = try? kept().endings, !endings.isEmpty else { return }
        endingSessions = true
        Task {
            for ending in endings { _ = try? await end(ending) }
            endingSessions = false
        }
    }

    /// Ends a session that was signed out here, and forgets its secret.
    @discardableResult
    func end(_ ending: Credentials.Ending, query: String? = nil) async throws -> Answer {
        var credentials = Credentials()
        (credentials.session, credentials.transport) = (ending.session, ending.transport)
        let answer = try await call("DELETE", "/v1/session", query: query, as: credentials)
        var kept = try kept()
        kept.endings.removeAll { $0 == ending }
        try keepOrForget(kept)
        return answer
    }

    /// Writes the credentials, or nothing where there is nothing to keep.
    func keepOrForget(_ credentials: Credentials) throws {
        try storage.write(credentials.isEmpty ? nil : credentials)
    }

    /// Forgets a session that has ended, and keeps the login that a refusal may carry.
    func learn(from problem: Problem, _ answer: Answer, sent request: URLRequest) throws {
        if problem.endsSession { try forget(asSentIn: request) }
        if let login = problem.login { try keep(login, from: answer) }
    }

    /// Forgets the session, unless another took its place while the answer was under way.
    func forget(asSentIn request: URLRequest) throws {
        guard var credentials = try storage.read(), let session = credentials.session else { return }
        let sent = ["Cookie", "Authorization"].compactMap { request.value(forHTTPHeaderField: $0) }
        guard sent.contains(where: { $0.contains(session) }) else { return }
        credentials.session = nil
        credentials.lastSession = nil
        try storage.write(credentials)
    }
}
