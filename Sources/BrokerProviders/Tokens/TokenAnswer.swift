import Broker

/// Converts the answer of a token endpoint into tokens or a failure (SEC-20, SEC-21).
struct TokenAnswer: Sendable {
    /// The longest accepted access or refresh token, in bytes.
    static let maximumTokenBytes = 16_384
    /// The longest accepted id_token in an answer, in bytes.
    ///
    /// Some contain hundreds of groups, or a picture.
    static let maximumIDTokenBytes = CompactToken.Bounds.answered.token

    let settings: TokenResponseSettings
    let scopeSeparator: String
    let keepsRefreshToken: Bool
    /// Whether the call requested tokens that are bound to a key, and which tokens it accepts.
    enum Binding: Sendable {
        /// The call requested unbound tokens.
        case none
        /// The call requested bound tokens, and also accepts unbound ones.
        case offered
        /// The call requested bound tokens, and accepts no others; the caller checks the binding.
        case demanded
    }

    var binding = Binding.none
    /// Whether the answer belongs to a refresh.
    ///
    /// The entries of `dead_grants` apply only to answers to a refresh (guarantee 2).
    var isRefresh = false
    /// Returns the meaning of a 4xx without an OAuth error, in this provider's dialect; nil if the meaning is unknown.
    var dialect: (@Sendable (ProviderAnswer) -> OAuthError?)?

    /// Parses an answer; either all its tokens are usable, or the whole answer is refused.
    func parse(_ answer: ProviderAnswer, now: WallTime) throws(ProviderFailure) -> TokenSet {
        let tokens = try read(answer, now: now)
        if let refusal = tokens.refusal { throw .unusable(detail: refusal) }
        return tokens
    }

    /// Parses the answer to a refresh; `target` is nil for the session's own token.
    ///
    /// An answer for a target may have a usable refresh token and an unusable access token. The refresh token is then returned
    /// with an empty access token, because it may be the only valid one. The set's `refusal` has the reason.
    func refreshed(
        _ answer: ProviderAnswer, _ target: TokenTarget?, now: WallTime
    ) throws(ProviderFailure) -> TokenSet {
        var parser = self
        parser.isRefresh = true
        guard target != nil else { return try parser.parse(answer, now: now) }
        var tokens = try parser.read(answer, now: now)
        guard let refusal = tokens.refusal else { return tokens }
        guard tokens.refreshToken != nil else { throw .unusable(detail: refusal) }
        tokens.accessToken = Secret("")
        tokens.expiresAt = nil
        return tokens
    }

    /// Reads an answer; if its tokens are unusable, the set's `refusal` has the reason.
    ///
    /// Throws if the answer reports an error or is not an object. A 429 or 5xx is `retryable` and a redirect `unusable`, with
    /// any body. With other statuses, also with 200, an error in the body is the result.
    func read(_ answer: ProviderAnswer, now: WallTime) throws(ProviderFailure) -> TokenSet {
        try answer.requireUsable(at: now)
        if !answer.isSuccess, let error = dialect?(answer) { throw .rejected(error) }
        // One real server answers a dead refresh token with an empty body. The caller decides whether an empty body proves
        // that the grant is dead (decision 50).
        if [400, 401].contains(answer.status), answer.body.isEmpty, answer.fault == nil {
            throw .rejected(OAuthError(status: answer.status, code: ""))
        }
        guard let object = AnswerBody.object(answer) else {
            throw .unusable(detail: "token answer: \(answer.summaryOfObject), no object")
        }
        if isRefresh, settings.deadGrants.contains(where: { $0.isFound(in: object, answer.status) }),
            !bringsAccessToken(object)
        {
            throw .rejected(OAuthError(status: answer.status, code: "invalid_grant"))
        }
        if let place = object.halvedTexts.keys.first(where: isOfProtocol) {
            throw .unusable(detail: "token answer: half a surrogate pair in \(place)")
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

    private func member(_ name: String, of object: JSONObject) -> JSONValue? {
        object.present(settings.fields[name] ?? name)
    }

    private func bringsAccessToken(_ object: JSONObject) -> Bool {
        [object, settings.path.flatMap { object.value(at: $0)?.object }].compactMap(\.self).contains {
            $0.present("access_token") != nil || member("access_token", of: $0) != nil
        }
    }

    /// Returns whether a token, an error or another member of the protocol is read at this JSON pointer.
    ///
    /// If such a member contains half a surrogate pair, the answer is refused instead of mended.
    private func isOfProtocol(_ place: String) -> Bool {
        let names = [
            "access_token", "refresh_token", "id_token", "token_type", "scope", "error", "issued_token_type",
        ]
        return names.contains { name in
            ["", settings.path ?? ""].contains { path in
                let whole = path + JSONPointer.make([settings.fields[name] ?? name])
                return place == whole || place.hasPrefix(whole + "/")
            }
        }
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
        func member(_ name: String) -> JSONValue? { self.member(name, of: object) }
        // Read all tokens even if the answer is refused here, because the caller then revokes them.
        var refusal: String?
        func refuse(_ reason: String) { refusal = refusal ?? "token answer: " + reason }
        let access = member("access_token")?.string ?? ""
        let accessFault = Self.fault(of: access, maximumBytes: Self.maximumTokenBytes)
        if let accessFault { refuse("no usable access token: \(accessFault)") }
        let isBound = binding != .none && member("token_type")?.string?.lowercased() == "dpop"
        if let type = member("token_type"), !isBound, binding != .demanded {
            let text = type.string?.lowercased()
            if text != "bearer", !settings.tokenTypes.contains(where: { $0.lowercased() == text }) {
                refuse("not a Bearer token")
            }
        }
        func token(_ name: String, maximumBytes: Int) -> Secret? {
            guard let value = member(name), value.string?.isEmpty != true else { return nil }
            guard let text = value.string else {
                refuse("no usable \(name): it is no text")
                return nil
            }
            if let fault = Self.fault(of: text, maximumBytes: maximumBytes) {
                refuse("no usable \(name): \(fault)")
                return nil
            }
            return Secret(text)
        }
        let refresh = token("refresh_token", maximumBytes: Self.maximumTokenBytes)
        let idToken = token("id_token", maximumBytes: Self.maximumIDTokenBytes)
        let expiry = Lifetime.end(object[settings.expiresField], unit: settings.expiresUnit, now: now)
        var tokens = TokenSet(
            credential: isBound ? .dpop : .bearer, accessToken: Secret(accessFault == nil ? access : ""),
            refreshToken: keepsRefreshToken ? refresh : nil, idToken: idToken,
            scope: scope(member("scope")),
            expiresAt: expiry ?? settings.defaultLifetime.map { now.advanced(by: $0) },
            refreshExpiresAt: settings.refreshExpiresField.flatMap {
                Lifetime.end(object[$0], unit: settings.expiresUnit, now: now)
            })
        tokens.refusal = refusal
        return tokens
    }

    /// Reads the scope from a text or an array; nil if the scope is unknown.
    ///
    /// Entries outside RFC 6749's scope alphabet are dropped.
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

    /// Returns the fault in a token's text; nil if there is none.
    ///
    /// A token is visible ASCII (RFC 6749 section A.12) without the space. Providers ignore RFC 6750's narrower alphabet
    /// (decision 80).
    private static func fault(of text: String, maximumBytes: Int) -> String? {
        if text.isEmpty { return "it is missing, empty or no text" }
        if text.utf8.count > maximumBytes { return "it is over \(maximumBytes) bytes" }
        guard let byte = text.utf8.first(where: { !(0x21...0x7E).contains($0) }) else { return nil }
        return "it has the byte \(byte), which is not visible ASCII"
    }
}

/// Reads a lifetime in all formats that providers send (SEC-21).
///
/// The lifetime may be absent, zero, negative, fractional, a text, huge, or a point in time.
enum Lifetime {
    /// The longest lifetime that is accepted, in seconds; a longer lifetime is reduced to this value.
    static let longest: Int64 = 400 * 86_400
    /// The smallest number of seconds that counts as a time since 1970 instead of a duration.
    private static let earliestMoment: Double = 1_000_000_000

    /// Returns the time that the value means; nil for an absent, past, zero or nonsensical value.
    static func end(_ value: JSONValue?, unit: TokenResponseSettings.Unit, now: WallTime) -> WallTime? {
        guard let number = number(value), number > 0 else { return nil }
        let present = Double(now.milliseconds) / 1000
        var remaining = number
        if unit == .epochSeconds || number >= earliestMoment {
            // Some servers use milliseconds. In seconds, such a number would be thousands of years away.
            remaining = (number >= 100_000_000_000 ? number / 1000 : number) - present
        }
        guard remaining >= 1 else { return nil }
        let seconds = remaining >= Double(longest) ? longest : Int64(exactly: remaining.rounded(.down)) ?? longest
        return now.advanced(by: .seconds(seconds))
    }

    private static func number(_ value: JSONValue?) -> Double? {
        switch value {
        case .number: value?.double
        case .string(let text) where text.utf8.count <= 32: Double(text).flatMap { $0.isFinite ? $0 : nil }
        default: nil
        }
    }
}
