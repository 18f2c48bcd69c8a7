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
        /// The call also accepts unbound tokens.
        case offered
        /// The call accepts only bound tokens; the caller checks the binding.
        case demanded
    }

    var binding = Binding.none
    /// Whether the answer belongs to a refresh.
    ///
    /// Only the answer to a refresh may report a dead grant by a configured entry (guarantee 2).
    var isRefresh = false
    /// Returns the meaning of a 4xx without an OAuth error, in this provider's dialect; nil if it is unknown.
    var dialect: (@Sendable (ProviderAnswer) -> OAuthError?)?

    /// Parses an answer; either all its tokens are usable, or the whole answer is refused.
    func parse(_ answer: ProviderAnswer, now: WallTime) throws(ProviderFailure) -> TokenSet {
        let tokens = try read(answer, now: now)
        if let refusal = tokens.refusal { throw .unusable(detail: refusal) }
        return tokens
    }

    /// Parses the answer to a refresh with a target.
    ///
    /// If only the refresh token is usable, it is returned with an empty access token, because it may be the only valid one.
    /// The set's `refusal` then has the reason.
    func rotated(_ answer: ProviderAnswer, now: WallTime) throws(ProviderFailure) -> TokenSet {
        var tokens = try read(answer, now: now)
        guard let refusal = tokens.refusal else { return tokens }
        guard tokens.refreshToken != nil else { throw .unusable(detail: refusal) }
        tokens.accessToken = Secret("")
        tokens.expiresAt = nil
        return tokens
    }

    /// Parses the answer to a refresh; `target` is nil for the session's own token.
    func refreshed(
        _ answer: ProviderAnswer, _ target: TokenTarget?, now: WallTime
    ) throws(ProviderFailure) -> TokenSet {
        var parser = self
        parser.isRefresh = true
        return target == nil ? try parser.parse(answer, now: now) : try parser.rotated(answer, now: now)
    }

    /// Reads an answer; if its tokens are unusable, the set's `refusal` has the reason.
    ///
    /// Throws if the answer reports an error or is not an object. An error member has precedence over the status.
    func read(_ answer: ProviderAnswer, now: WallTime) throws(ProviderFailure) -> TokenSet {
        try answer.requireUsable(at: now)
        if !answer.isSuccess, let error = dialect?(answer) { throw .rejected(error) }
        // One real server answers a dead refresh token with an empty body. The caller decides whether this is enough evidence
        // (decision 50).
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

    /// Returns whether tokens or errors are read at this place.
    ///
    /// Half a surrogate pair in such a text is never replaced.
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
        // Read the tokens of a refused answer too, because the caller revokes them.
        var refusal: String?
        func refuse(_ reason: String) { refusal = refusal ?? "token answer: " + reason }
        let access = member("access_token")?.string ?? ""
        if let fault = Self.fault(of: access, maximumBytes: Self.maximumTokenBytes) {
            refuse("no usable access token: \(fault)")
        }
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
            credential: isBound ? .dpop : .bearer, accessToken: Secret(Self.isTokenText(access) ? access : ""),
            refreshToken: keepsRefreshToken ? refresh : nil, idToken: idToken,
            scope: scope(member("scope")),
            expiresAt: expiry ?? settings.defaultLifetime.map { now.advanced(by: $0) },
            refreshExpiresAt: settings.refreshExpiresField.flatMap {
                Lifetime.end(object[$0], unit: settings.expiresUnit, now: now)
            })
        tokens.refusal = refusal
        return tokens
    }

    /// Reads a text or an array; nil if the scope is unknown.
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

    /// Returns whether a text can be an access token: visible ASCII (RFC 6749 section A.12) without the space.
    ///
    /// Providers ignore RFC 6750's narrower alphabet (decision 80).
    static func isTokenText(_ text: String) -> Bool { fault(of: text, maximumBytes: maximumTokenBytes) == nil }

    /// Returns the fault in a token's text; nil if there is none.
    private static func fault(of text: String, maximumBytes: Int) -> String? {
        if text.isEmpty { return "it is missing, empty or no text" }
        if text.utf8.count > maximumBytes { return "it is over \(maximumBytes) bytes" }
        guard let byte = text.utf8.first(where: { !(0x21...0x7E).contains($0) }) else { return nil }
        return "it has the byte \(byte), which is not visible ASCII"
    }
}

/// Reads a lifetime in the forms that providers send (SEC-21): absent, zero, negative, fractional, as text, huge or as a
/// time.
enum Lifetime {
    /// The longest lifetime that is accepted, in seconds; a longer one is reduced to this.
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

/// Reads an answer's body as an object from JSON, or from a form as GitHub and old servers send it.
enum AnswerBody {
    /// Returns the members, if the body is in one of these forms.
    ///
    /// A body that begins with `{` is read as JSON, whatever its media type. Other bodies are read as a form if their media type
    /// is that of a form or `text/plain`.
    static func object(_ answer: ProviderAnswer) -> JSONObject? {
        let body = answer.text
        let first = body.first { $0 != 0x20 && $0 != 0x09 && $0 != 0x0A && $0 != 0x0D }
        if first == UInt8(ascii: "{") { return try? answer.parsedObject(mendingTexts: true) }
        guard ["application/x-www-form-urlencoded", "text/plain"].contains(answer.mediaType),
            body.count <= 65_536, first != UInt8(ascii: "<"),
            let text = String(validating: body, as: UTF8.self), text.utf8.contains(UInt8(ascii: "=")),
            let form = try? FormPairs(parsing: text)
        else { return nil }
        return JSONObject(form.pairs.map { ($0.name, .string($0.value)) })
    }
}

/// Finds the OAuth error in an answer, in every dialect of providers (docs/providers/real-servers.md).
enum OAuthErrorParser {
    /// Returns the error code in an answer's object; nil if the object contains no error.
    ///
    /// `isFailure` is whether the status was 4xx. A `message` or `error_description` alone then counts as an error.
    /// `ignoringError` leaves out the member `error` (see `saysNone`).
    static func code(in object: JSONObject, isFailure: Bool, ignoringError: Bool = false) -> String? {
        switch ignoringError ? nil : object["error"] {
        case .string(let text) where !text.isEmpty: return reduced(text)
        case .object(let error):
            let names = ["type", "code", "error", "status"]
            return names.lazy.compactMap { scalar(error[$0]) }.first.map(reduced) ?? "invalid_request"
        case .bool(true): return "invalid_request"
        // Some APIs number their errors, and 0 means success.
        case .number(let text) where text != "0": return "invalid_request"
        default: break
        }
        if object["ok"]?.bool == false || object["success"]?.bool == false { return "invalid_request" }
        if let errors = object["errors"]?.array, !errors.isEmpty {
            let names = ["errorType", "code", "error", "type"]
            let codes = Set(
                errors.prefix(64).map { error in
                    error.string ?? error.object.flatMap { error in names.lazy.compactMap { scalar(error[$0]) }.first }
                })
            // If several codes differ, the meaning is unknown.
            return codes.count == 1 ? codes.first?.map(reduced) ?? "invalid_request" : "invalid_request"
        }
        if object["error_code"] != nil, object["error_message"] != nil { return "invalid_request" }
        guard isFailure, object["message"]?.string != nil || object["error_description"]?.string != nil else {
            return nil
        }
        return "invalid_request"
    }

    /// Returns whether the member `error` in an identity endpoint's success means "no error", for example TikTok's `{"code":
    /// "ok"}`.
    ///
    /// `further` are a preset's own values.
    static func saysNone(_ error: JSONValue, _ further: [String] = []) -> Bool {
        func isNone(_ value: JSONValue?) -> Bool {
            switch value {
            case .null, .bool(false): true
            case .string(let text): ["", "none", "ok"].contains(text) || further.contains { $0.hasBytes(of: text) }
            case .number(let text): text == "0"
            case .bool(true), .array, .object, nil: false
            }
        }
        return isNone(error.object.map { $0["code"] } ?? error)
    }

    /// Returns whether an error code means "try again later", regardless of the status.
    static func isTransient(_ code: String) -> Bool {
        ["temporarily_unavailable", "service_unavailable", "ratelimited", "rate_limited", "slow_down"].contains(code)
    }

    private static func scalar(_ value: JSONValue?) -> String? {
        switch value {
        case .string(let text) where !text.isEmpty: text
        case .number(let text): text
        default: nil
        }
    }

    /// Reduces a code to RFC 6749 section 5.2's alphabet and at most 64 characters, because it goes into logs.
    static func reduced(_ text: String) -> String {
        let bytes = text.utf8.prefix(64).filter { (0x20...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
        return bytes.isEmpty ? "invalid_request" : String(decoding: bytes, as: UTF8.self)
    }
}

/// `token_response`: the differences of a token answer from RFC 6749.
package struct TokenResponseSettings: Sendable {
    /// The setting `scope: {when_absent}`: the meaning of an answer that lacks a scope.
    package enum ScopeWhenAbsent: String, Sendable {
        /// The scope that was requested (RFC 6749 section 5.1).
        case requested
        /// The scope is unknown.
        case unknown
    }

    /// The setting `scope: {separator}`.
    package enum ScopeSeparator: String, Sendable { case space, comma }

    /// The setting `expires_unit`.
    package enum Unit: String, Sendable { case seconds, epochSeconds = "epoch_seconds" }

    /// `path`: the place of the token object, as a JSON pointer (`/authed_user`); nil for the answer itself.
    package var path: String?
    /// `fields`: a map from standard names to the provider's names (`access_token: token`).
    package var fields: [String: String]
    /// The setting `expires_field`.
    package var expiresField: String
    /// `refresh_expires_field`: the refresh token's own lifetime, in the same unit; nil if answers omit it.
    package var refreshExpiresField: String?
    /// The setting `expires_unit`.
    package var expiresUnit: Unit
    /// `default_lifetime`: the access token's lifetime if the answer omits it; nil leaves it unknown.
    package var defaultLifetime: Duration?
    /// `token_types`: types that are treated like `bearer`, compared independent of case.
    package var tokenTypes: [String]
    /// `dead_grants`: further places and values in the answer to a refresh that mean a dead grant.
    package var deadGrants: [DeadGrantPlace] = []
    /// `invalid_grant_codes`: this provider's error codes that mean `invalid_grant` (GitHub's `bad_refresh_token`).
    package var invalidGrantCodes: Set<String>

    /// `scope: {when_absent}`; nil is `requested` for `oidc` and `oauth2`, and `unknown` for others.
    package var scopeWhenAbsent: ScopeWhenAbsent?
    /// `scope: {separator}`; nil accepts a space or the separator of the request's scope.
    package var scopeSeparator: ScopeSeparator?

    package init(
        path: String? = nil, fields: [String: String] = [:], expiresField: String = "expires_in",
        refreshExpiresField: String? = nil, expiresUnit: Unit = .seconds, defaultLifetime: Duration? = nil,
        tokenTypes: [String] = [], invalidGrantCodes: Set<String> = [], scopeWhenAbsent: ScopeWhenAbsent? = nil,
        scopeSeparator: ScopeSeparator? = nil, deadGrants: [DeadGrantPlace] = []
    ) {
        self.deadGrants = deadGrants
        self.path = path
        self.fields = fields
        self.expiresField = expiresField
        self.refreshExpiresField = refreshExpiresField
        self.expiresUnit = expiresUnit
        self.defaultLifetime = defaultLifetime
        self.tokenTypes = tokenTypes
        self.invalidGrantCodes = invalidGrantCodes
        self.scopeWhenAbsent = scopeWhenAbsent
        self.scopeSeparator = scopeSeparator
    }
}
