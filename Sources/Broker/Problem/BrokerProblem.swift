/// A refusal or failure on its way to the caller, in its three voices: the stable `code` (which fixes the status), what
/// the caller may read, and the private detail for the log.
///
/// One place turns it into a response.
package struct BrokerProblem: Error, Sendable {
    package var code: ProblemCode
    /// For the caller: our own words, never input, never a secret.
    ///
    /// Nil takes the code's standard sentence.
    package var detail: String?
    /// For the log only.
    package var privateDetail: String?
    /// The request's faults by field.
    package var errors: [FieldFault]
    package var reason: EndReason?
    /// `new_login` when trying again with the same code is no use.
    package var retry: String?
    /// The fresh login of `login_required`.
    package var login: StartedLogin?
    package var retryAfter: Duration?
    /// The provider's own word for what went wrong, where it is one that a standard defines.
    package var providerError: String?
    /// Why evidence was not accepted: the answer names it and brings a nonce.
    package internal(set) var proof: ProofRefusal?

    package init(
        _ code: ProblemCode, detail: String? = nil, privateDetail: String? = nil, errors: [FieldFault] = [],
        reason: EndReason? = nil, retry: String? = nil, login: StartedLogin? = nil, retryAfter: Duration? = nil,
        providerError: String? = nil
    ) {
        self.code = code
        self.detail = detail
        self.privateDetail = privateDetail
        self.errors = errors
        self.reason = reason?.shown
        self.retry = retry
        self.login = login
        self.retryAfter = retryAfter
        self.providerError = providerError
    }
}

/// One faulty member of a request.
package struct FieldFault: Sendable, Equatable {
    package enum Code: String, Sendable {
        case required, unknown, duplicate, wrongType = "wrong_type", tooLong = "too_long", tooShort = "too_short"
        case malformed, notAllowed = "not_allowed", conflict
    }

    /// The JSON pointer of the member (`/callback_url`), or of a query parameter's or header's name.
    package let pointer: String
    package let code: Code

    package init(_ pointer: String, _ code: Code) {
        self.pointer = pointer
        self.code = code
    }
}
