import Broker

/// Turns the answer of a token endpoint into tokens or into what the failure means (SEC-20, SEC-21).
struct TokenAnswer: Sendable {
    /// The longest token taken, in bytes.
    static let maximumTokenBytes = 16_384

    let settings: TokenResponseSettings
    let scopeSeparator: String
    let keepsRefreshToken: Bool
    /// Says what a 4xx without an OAuth error means in this provider's dialect; nil when it means nothing.
    var dialect: (@Sendable (ProviderAnswer) -> OAuthError?)?

    /// Parses an answer whose tokens are of use or of none.
    func parse(_ answer: ProviderAnswer, now: WallTime) throws(ProviderFailure) -> TokenSet {
        let tokens = try read(answer, now: now)
        if let refusal = tokens.refusal { throw .unusable(detail: refusal) }
        return tokens
    }

    /// Reads an answer; where it brings tokens that cannot be used, the set says so by its `refusal`.
    ///
    /// An error member beats the status; only a whole object with a usable access token is success.
    func read(_ answer: ProviderAnswer, now: WallTime) throws(ProviderFailure) -> TokenSet {
        try answer.requireUsable(at: now)
        if !answer.isSuccess, let error = dialect?(answer) { throw .rejected(error) }
        // One real server refuses a dead refresh token so; what it proves is the caller's to judge (decision 50).
        if [400, 401].contains(answer.status), answer.body.isEmpty, answer.fault == nil {
            throw .rejected(OAuthError(status: answer.status, code: ""))
        }
        guard let object = AnswerBody.object(answer) else {
            throw .unusable(detail: "token answer: \(answer.summary), no object")
        }
        if let code = OAuthErrorParser.code(in: object, isFailure: !answer.isSuccess) {
            throw failure(code, isNamed: object["error"]?.string?.isEmpty == false, answer, now)
        }
        guard answer.isSuccess else { throw .unusable(detail: "token answer: \(answer.summary), no OAuth error") }
        guard let tokens = settings.path.map({ object.value(at: $0)?.object }) ?? object else {
            throw .unusable(detail: "token answer: no object at the configured path")
        }
        return try tokenSet(tokens, now: now)
    }

    private func failure(
        _ code: String, isNamed: Bool, _ answer: ProviderAnswer, _ now: WallTime
    ) -> ProviderFailure {
        if OAuthErrorParser.isTransient(code) {
            return .retryable(status: answer.status, retryAfter: answer.retryAfter(at: now), detail: code)
        }
        let known = settings.invalidGrantCodes.contains(code) ? "invalid_grant" : code
        return .rejected(OAuthError(status: answer.status, code: known, isNamed: isNamed))
    }

    private func tokenSet(_ object: JSONObject, now: WallTime) throws(ProviderFailure) -> TokenSet {
        func member(_ name: String) -> JSONValue? {
            let value = object[settings.fields[name] ?? name]
            return value?.isNull == true ? nil : value
        }
        // What the answer did bring has to be known even where it cannot be used: it is revoked then.
        var refusal: String?
        func refuse(_ reason: String) { refusal = refusal ?? "token answer: " + reason }
        let access = member("access_token")?.string ?? ""
        if !Self.isBearerText(access) { refuse("no usable access token") }
        if let type = member("token_type") {
            let text = type.string?.lowercased()
            if text != "bearer", !settings.tokenTypes.contains(where: { $0.lowercased() == text }) {
                refuse("not a Bearer token")
            }
        }
        func token(_ name: String) -> Secret? {
            do throws(ProviderFailure) { return try self.text(member(name), name) } catch {
                refuse("no usable \(name)")
                return nil
            }
        }
        let refresh = token("refresh_token")
        let idToken = token("id_token")
        let expiry = Lifetime.end(object[settings.expiresField], unit: settings.expiresUnit, now: now)
        var tokens = TokenSet(
            accessToken: Secret(Self.isBearerText(access) ? access : ""),
            refreshToken: keepsRefreshToken ? refresh : nil, idToken: idToken,
            scope: scope(member("scope")),
            expiresAt: expiry ?? settings.defaultLifetime.map { now.advanced(by: $0) },
            refreshExpiresAt: settings.refreshExpiresField.flatMap {
                Lifetime.end(object[$0], unit: settings.expiresUnit, now: now)
            })
        tokens.refusal = refusal
        return tokens
    }

    private func text(_ value: JSONValue?, _ what: String) throws(ProviderFailure) -> Secret? {
        guard let value, value.string?.isEmpty != true else { return nil }
        guard let text = value.string, text.utf8.count <= Self.maximumTokenBytes,
            text.utf8.allSatisfy({ (0x20...0x7E).contains($0) })
        else { throw .unusable(detail: "token answer: no usable \(what)") }
        return Secret(text)
    }

    /// Text, an array, or nothing known; entries outside RFC 6749's scope alphabet are dropped.
    private func scope(_ value: JSONValue?) -> [String]? {
        let parting =
            switch settings.scopeSeparator {
            case .space: " "
            case .comma: ", "
            case nil: scopeSeparator + " "
            }
        let separators = Set(parting.unicodeScalars)
        let parts =
            value?.string?.unicodeScalars.split(whereSeparator: separators.contains).map(String.init)
            ?? value?.array?.compactMap(\.string)
        return parts?.prefix(64).filter { part in
            (1...256).contains(part.utf8.count)
                && part.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
        }
    }

    /// RFC 6750's b64token: what may stand in an `Authorization` field.
    static func isBearerText(_ text: String) -> Bool {
        guard (1...maximumTokenBytes).contains(text.utf8.count) else { return false }
        let body = text.utf8.reversed().drop { $0 == UInt8(ascii: "=") }
        return !body.isEmpty
            && body.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                default: "-._~+/".utf8.contains(byte)
                }
            }
    }
}
