/// `token_response`: how a token answer differs from RFC 6749's.
package struct TokenResponseSettings: Sendable {
    /// The setting `scope: {when_absent}`: what an answer without a scope means.
    package enum ScopeWhenAbsent: String, Sendable {
        /// The one that was asked for (RFC 6749 section 5.1).
        case requested
        /// Nothing is known.
        case unknown
    }

    /// The setting `scope: {separator}`.
    package enum ScopeSeparator: String, Sendable { case space, comma }

    /// The setting `expires_unit`.
    package enum Unit: String, Sendable { case seconds, epochSeconds = "epoch_seconds" }

    /// `path`: where the token object stands, as a JSON pointer (`/authed_user`); nil for the answer itself.
    package var path: String?
    /// `fields`: standard name to the provider's (`access_token: token`).
    package var fields: [String: String]
    /// The setting `expires_field`.
    package var expiresField: String
    /// `refresh_expires_field`: the refresh token's own lifetime, in the same unit; nil when there is none.
    package var refreshExpiresField: String?
    /// The setting `expires_unit`.
    package var expiresUnit: Unit
    /// `default_lifetime`: the access token's when the answer names none; nil leaves it unknown.
    package var defaultLifetime: Duration?
    /// `token_types`: taken as Bearer, beside `bearer` itself, compared without case.
    package var tokenTypes: [String]
    /// `invalid_grant_codes`: error codes by which this provider says `invalid_grant` (GitHub's `bad_refresh_token`).
    package var invalidGrantCodes: Set<String>

    /// `scope: {when_absent}`; nil is `requested` for `oidc` and `oauth2`, else `unknown`.
    package var scopeWhenAbsent: ScopeWhenAbsent?
    /// `scope: {separator}`; nil takes a space or whatever parts a request's scope.
    package var scopeSeparator: ScopeSeparator?

    package init(
        path: String? = nil, fields: [String: String] = [:], expiresField: String = "expires_in",
        refreshExpiresField: String? = nil, expiresUnit: Unit = .seconds, defaultLifetime: Duration? = nil,
        tokenTypes: [String] = [], invalidGrantCodes: Set<String> = [], scopeWhenAbsent: ScopeWhenAbsent? = nil,
        scopeSeparator: ScopeSeparator? = nil
    ) {
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
