/// The meaning of a status of Zephr's register call (`status_map`).
package enum ZephrRegisterStatus: String, Sendable, CaseIterable {
    case badAttributes = "bad_attributes"
    case userExists = "user_exists"
    case emailDomainDenied = "email_domain_denied"
    case stateInvalid = "state_invalid"
    case rateLimited = "rate_limited"
    case providerError = "provider_error"

    /// The meanings of the statuses according to Zephr's documents and client code (docs/providers/zephr.md).
    ///
    /// A 5xx is never mapped, because its outcome is unknown.
    package static let documented: [Int: ZephrRegisterStatus] = [
        400: .badAttributes, 401: .stateInvalid, 403: .emailDomainDenied, 404: .stateInvalid, 409: .userExists,
        410: .stateInvalid, 429: .rateLimited,
    ]
}
