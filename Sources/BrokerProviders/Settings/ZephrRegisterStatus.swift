/// What a status of Zephr's register call means (`status_map`).
package enum ZephrRegisterStatus: String, Sendable, CaseIterable {
    case badAttributes = "bad_attributes"
    case userExists = "user_exists"
    case emailDomainDenied = "email_domain_denied"
    case stateInvalid = "state_invalid"
    case rateLimited = "rate_limited"
    case providerError = "provider_error"

    /// What the documents and client code say (providers/zephr.md); 5xx is never mapped: the outcome is unknown.
    package static let documented: [Int: ZephrRegisterStatus] = [
        400: .badAttributes, 401: .stateInvalid, 403: .emailDomainDenied, 404: .stateInvalid, 409: .userExists,
        410: .stateInvalid, 429: .rateLimited,
    ]
}
