/// `token_response`: the differences of a token answer from RFC 6749.
package struct TokenResponseSettings: Sendable {
    /// The setting `scope: {when_absent}`: the scope to assume if an answer lacks one.
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

    /// `scope: {when_absent}`; nil means `requested` for the kinds `oidc` and `oauth2`, and `unknown` for the other kinds.
    package var scopeWhenAbsent: ScopeWhenAbsent?
    /// `scope: {separator}`; nil accepts a space and also the separator of requests (`scope_separator`).
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
