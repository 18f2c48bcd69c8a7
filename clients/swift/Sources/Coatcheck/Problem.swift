import Foundation

/// A refusal by the broker (RFC 9457).
///
/// An app reacts to the `code`, which is stable.
public struct Problem: Error, Codable, Sendable, Hashable {
    /// One faulty member of a request.
    public struct Fault: Codable, Sendable, Hashable {
        /// A JSON pointer into the body, or the name of a parameter.
        public let pointer: String
        /// The stable code.
        public let code: String
    }

    /// The result of a step-up's sign-in that did not meet the demand.
    public struct Got: Codable, Sendable, Hashable {
        /// The id_token's `acr`.
        public let acr: String?
        /// The id_token's `auth_time`.
        public let authenticatedAt: Date?

        enum CodingKeys: String, CodingKey { case acr, authenticatedAt = "authenticated_at" }
    }

    /// A title for users.
    public let title: String
    /// The HTTP status.
    public let status: Int
    /// The stable code.
    public let code: ProblemCode
    /// A text for the developer, which may be reworded.
    public let detail: String
    /// The ID of the request, for bug reports.
    public let requestID: String
    /// Every faulty member of the request.
    public let errors: [Fault]?
    /// The reason why a session ended or a proof was refused.
    public let reason: String?
    /// The value `new_login` means that the login's authorization code cannot be used any more, so a new login is needed.
    public let retry: String?
    /// The provider's error code, if a standard defines it.
    public let providerError: String?
    /// The demand of ``ProblemCode/stepUpRequired``, which a step-up has to meet.
    public let stepUp: StepUp?
    /// Whether a child session's ``ProblemCode/stepUpRequired`` asks the parent to step up and make a new child.
    public let parent: Bool?
    /// The demand, for ``ProblemCode/stepUpFailed``.
    public let required: StepUp?
    /// The result of the sign-in, for ``ProblemCode/stepUpFailed``, or nil if the result is unknown.
    public let got: Got?
    let login: StartedLogin?

    enum CodingKeys: String, CodingKey {
        case title, status, code, detail, errors, reason, retry, parent, required, got, login
        case requestID = "request_id", providerError = "provider_error", stepUp = "step_up"
    }

    /// Whether the session has ended.
    public var endsSession: Bool { status == 401 && (code == .sessionEnded || code == .sessionRequired) }

    /// Whether the same request may succeed after a pause.
    public var passes: Bool { (status == 503 && retry != "new_login") || status == 429 || status == 408 }
}

extension Problem: LocalizedError {
    /// The title with the details for a bug report.
    public var errorDescription: String? { "\(title) (\(code.rawValue), \(requestID))" }
}
