/// The stable code of a problem.
///
/// `docs/problems.md` has a paragraph for each.
///
/// Later brokers may have more codes.
public struct ProblemCode: RawRepresentable, Codable, Sendable, Hashable {
    /// The code as it is on the wire.
    public let rawValue: String

    /// Creates a code, which may be unknown.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The code `session_required`.
    public static let sessionRequired = ProblemCode(rawValue: "session_required")
    /// The code `proof_required`.
    public static let proofRequired = ProblemCode(rawValue: "proof_required")
    /// The code `use_dpop_nonce`.
    public static let useDPoPNonce = ProblemCode(rawValue: "use_dpop_nonce")
    /// The code `proof_invalid`.
    public static let proofInvalid = ProblemCode(rawValue: "proof_invalid")
    /// The code `step_up_required`.
    public static let stepUpRequired = ProblemCode(rawValue: "step_up_required")
    /// The code `step_up_failed`.
    public static let stepUpFailed = ProblemCode(rawValue: "step_up_failed")
    /// The code `subject_mismatch`.
    public static let subjectMismatch = ProblemCode(rawValue: "subject_mismatch")
    /// The code `presence_required`.
    public static let presenceRequired = ProblemCode(rawValue: "presence_required")
    /// The code `presence_invalid`.
    public static let presenceInvalid = ProblemCode(rawValue: "presence_invalid")
    /// The code `client_not_allowed`.
    public static let clientNotAllowed = ProblemCode(rawValue: "client_not_allowed")
    /// The code `session_ended`.
    public static let sessionEnded = ProblemCode(rawValue: "session_ended")
    /// The code `login_not_yours`.
    public static let loginNotYours = ProblemCode(rawValue: "login_not_yours")
    /// The code `access_denied`.
    public static let accessDenied = ProblemCode(rawValue: "access_denied")
    /// The code `login_required`.
    public static let loginRequired = ProblemCode(rawValue: "login_required")
    /// The code `interaction_required`.
    public static let interactionRequired = ProblemCode(rawValue: "interaction_required")
    /// The code `code_already_used`.
    public static let codeAlreadyUsed = ProblemCode(rawValue: "code_already_used")
    /// The code `code_rejected`.
    public static let codeRejected = ProblemCode(rawValue: "code_rejected")
    /// The code `login_expired`.
    public static let loginExpired = ProblemCode(rawValue: "login_expired")
    /// The code `registration_rejected`.
    public static let registrationRejected = ProblemCode(rawValue: "registration_rejected")
    /// The code `state_key_expired`.
    public static let stateKeyExpired = ProblemCode(rawValue: "state_key_expired")
    /// The code `user_already_exists`.
    public static let userAlreadyExists = ProblemCode(rawValue: "user_already_exists")
    /// The code `email_domain_denied`.
    public static let emailDomainDenied = ProblemCode(rawValue: "email_domain_denied")
    /// The code `rate_limited`.
    public static let rateLimited = ProblemCode(rawValue: "rate_limited")
    /// The code `request_timeout`.
    public static let requestTimeout = ProblemCode(rawValue: "request_timeout")
    /// The code `provider_unavailable`.
    public static let providerUnavailable = ProblemCode(rawValue: "provider_unavailable")
    /// The code `store_unavailable`.
    public static let storeUnavailable = ProblemCode(rawValue: "store_unavailable")
    /// The code `upstream_not_allowed`.
    public static let upstreamNotAllowed = ProblemCode(rawValue: "upstream_not_allowed")
}
