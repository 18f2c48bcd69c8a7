import Foundation

/// A refusal of the broker's (RFC 9457).
///
/// Decide on `code`.
public struct Problem: Error, Codable, Sendable, Hashable {
    /// One faulty member of a request.
    public struct Fault: Codable, Sendable, Hashable {
        /// A JSON pointer into the body, or the name of a parameter.
        public let pointer: String
        /// The stable code.
        public let code: String
    }

    /// The sign-in of a step-up that was not what was demanded.
    public struct Got: Codable, Sendable, Hashable {
        /// The id_token's `acr`.
        public let acr: String?
        /// The id_token's `auth_time`.
        public let authenticatedAt: Date?

        enum CodingKeys: String, CodingKey { case acr, authenticatedAt = "authenticated_at" }
    }

    /// A title for people.
    public let title: String
    /// The HTTP status.
    public let status: Int
    /// The stable code.
    public let code: ProblemCode
    /// For the developer; may be reworded.
    public let detail: String
    /// Put it into bug reports.
    public let requestID: String
    /// Every faulty member of the request.
    public let errors: [Fault]?
    /// The reason for which a session ended, or a proof is not accepted.
    public let reason: String?
    /// `new_login`: the same code is of no more use.
    public let retry: String?
    /// The provider's own word, where a standard defines it.
    public let providerError: String?
    /// Of ``ProblemCode/stepUpRequired``: what a step-up has to meet.
    public let stepUp: StepUp?
    /// Of ``ProblemCode/stepUpRequired`` for a child session: its parent steps up, and makes a new one.
    public let parent: Bool?
    /// Of ``ProblemCode/stepUpFailed``: what was demanded.
    public let required: StepUp?
    /// Of ``ProblemCode/stepUpFailed``: what the sign-in showed; nil where nobody knows.
    public let got: Got?
    let login: StartedLogin?

    enum CodingKeys: String, CodingKey {
        case title, status, code, detail, errors, reason, retry, parent, required, got, login
        case requestID = "request_id", providerError = "provider_error", stepUp = "step_up"
    }

    /// Whether there is no session any more.
    public var endsSession: Bool { status == 401 && (code == .sessionEnded || code == .sessionRequired) }

    /// Whether waiting and sending the same request again is the answer.
    public var passes: Bool { (status == 503 && retry != "new_login") || status == 429 || status == 408 }
}

extension Problem: LocalizedError {
    /// The title with what a bug report needs.
    public var errorDescription: String? { "\(title) (\(code.rawValue), \(requestID))" }
}
