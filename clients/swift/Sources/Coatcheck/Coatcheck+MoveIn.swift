import Foundation

/// The move of a signed-in user from the app's old SDK to the broker.
///
/// `docs/apps/moving-in-app.md` has the rules.
extension Coatcheck {
    /// Moves the signed-in user of the app's old SDK to the broker, or continues a move that was interrupted.
    ///
    /// Call it at the start of the app, before the old SDK is used, and only in the app itself. Widgets and extensions
    /// wait for the app. The method returns after the move, or after about ten minutes of failures that pass with time. Meanwhile,
    /// use the old access token until it ends. Simultaneous calls share one move.
    ///
    /// Throws the errors of the storages, of the key and of the old SDK. The mark stays, so the next call continues.
    public func moveIn(
        from old: any OldSDK, provider: String, marks: any MarkStorage, device: String? = nil
    ) async throws -> MovedIn {
        if let moving, moving.isOpen { return try await moving.value() }
        let call = SharedCall { try await self.moved(from: old, provider, marks, device) }
        moving = call
        defer { if moving === call { moving = nil } }
        return try await call.value()
    }

    /// Continues a move that was interrupted; returns nil if the mark is missing.
    ///
    /// Call it at each start of the app, even after the app has stopped to begin moves.
    public func resumeMoveIn(
        from old: any OldSDK, provider: String, marks: any MarkStorage, device: String? = nil
    ) async throws -> MovedIn? {
        guard try marks.read() != nil else { return nil }
        return try await moveIn(from: old, provider: provider, marks: marks, device: device)
    }

    private func moved(
        from old: any OldSDK, _ provider: String, _ marks: any MarkStorage, _ device: String?
    ) async throws -> MovedIn {
        if try kept().session != nil {
            // If the mark exists, the session came after it: from the move itself, or from a sign-in after it.
            return try marks.read() == nil ? .notNow(.signedIn) : try await settled(old, marks)
        }
        let new = MoveInMark()
        guard var mark = try marks.change({ $0 ?? new }) else { return .notNow(.markTaken) }
        if !mark.posts, try await !hasEnded(old) {
            // Another process of the app may have waited longer. After its first request, the mark must stay.
            guard let left = try marks.change({ $0?.posts == true ? $0 : nil }) else {
                return .notNow(.refreshInProgress)
            }
            mark = left
        }
        // Read the tokens only now, because the refresh replaced them.
        guard let tokens = try await old.tokens() else {
            try marks.remove()
            return mark.posts ? .signIn(nil) : .notNow(.noTokens)
        }
        let posting = try marks.change { found in
            guard var found else { return nil }
            found.posts = true
            return found
        }
        guard let posting else { return .notNow(.markTaken) }
        let body = MoveInBody(
            provider: provider, client: client,
            tokens: .init(refresh_token: tokens.refreshToken, id_token: tokens.idToken),
            login_token: posting.loginToken, device: device)
        // Each run of the app sends the same bytes.
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let call = Call(
            method: "POST", path: "/v1/sessions", fields: ["Content-Type": "application/json"],
            body: try encoder.encode(body), evidence: .signIn)
        return try await posted(call, old, marks)
    }

    /// Waits for the old SDK's refresh, and returns whether it has ended in time.
    private func hasEnded(_ old: any OldSDK) async throws -> Bool {
        let waiting = SharedCall { await old.refreshEnded() }
        do { try await within(moveInPatience.refresh) { try await waiting.value() } } catch CoatcheckError.unreachable {
            return false
        }
        return true
    }

    /// Sends the same request until the broker has decided.
    private func posted(_ call: Call, _ old: any OldSDK, _ marks: any MarkStorage) async throws -> MovedIn {
        var paused = Duration.zero
        while true {
            try Task.checkCancellation()
            if try kept().session != nil { return try await settled(old, marks) }
            guard try marks.read() != nil else { return .notNow(.markTaken) }
            let answer = try await once(call)
            try Task.checkCancellation()
            if let answer, answer.status == 201, try keeps(answer) {
                endSessions()
                return try await settled(old, marks)
            }
            let problem = answer?.problem
            if let problem, let outcome = try await decided(by: problem, old, marks) { return outcome }
            let pause = (answer?.retryAfter ?? .zero) + moveInPatience.random()
            guard paused + pause <= moveInPatience.pauses else { return .later(problem) }
            try await moveInPatience.pause(pause)
            paused += pause
        }
    }

    /// Sends the request, with the nonce that the broker asks for; returns nil after a missing answer.
    private func once(_ call: Call) async throws -> Answer? {
        var mending = Mending()
        while true {
            do {
                let mended = mending
                let (request, answer) = try await within(moveInPatience.answer) { try await self.sent(call, mended) }
                guard let problem = answer.problem, try mends(problem, of: call, &mending, sent: request) else {
                    return answer
                }
            } catch CoatcheckError.unreachable { return nil }
        }
    }

    /// Stores the session of a 201 response; returns false for a response of another server.
    ///
    /// If the user has signed in meanwhile, the session of the sign-in stays, and the broker ends the moved session.
    private func keeps(_ answer: Answer) throws -> Bool {
        do {
            var credentials = try kept()
            if credentials.session == nil {
                _ = try made(answer)
            } else {
                credentials.endings = (credentials.endings + [try ending(of: answer)]).suffix(8)
                try storage.write(credentials)
            }
            return true
        } catch CoatcheckError.notTheBroker { return false }
    }

    /// Returns the outcome after a refusal, or nil if the same request may succeed after a pause.
    private func decided(by problem: Problem, _ old: any OldSDK, _ marks: any MarkStorage) async throws -> MovedIn? {
        switch (problem.status, problem.code) {
        case (409, .loginRequired):
            try await old.erase()
            try marks.remove()
            return .signIn(problem)
        case (409, .codeAlreadyUsed):
            // The tokens became a session, perhaps on another device. A refresh would end that session, so the mark stays
            // until the user has signed in.
            guard try kept().session != nil else { return .signIn(problem) }
            do {
                _ = try await remembered("GET", "/v1/session")
                return try await settled(old, marks)
            } catch let ended as Problem where ended.endsSession {
                return .signIn(problem)
            } catch CoatcheckError.unreachable {
                return .later(nil)
            } catch let passing as Problem where passing.passes {
                return .later(passing)
            }
        case (409, _):
            // The broker keeps the tokens, for example until the user has ended another session.
            return .later(problem)
        case (401, .useDPoPNonce), (408, _), (429, _), (500..., _): return nil
        default:
            try marks.remove()
            return .notNow(.refused(problem))
        }
    }

    /// Erases the old tokens, and then the mark, because the session is stored.
    private func settled(_ old: any OldSDK, _ marks: any MarkStorage) async throws -> MovedIn {
        try await old.erase()
        try marks.remove()
        return .moved(try kept().lastSession)
    }

    private struct MoveInBody: Encodable {
        struct Tokens: Encodable {
            var refresh_token: String
            var id_token: String?
        }

        var provider: String
        var client: String?
        var tokens: Tokens
        var login_token: String
        var device: String?
    }
}
