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
    /// The reason for which evidence was not accepted: the answer names it and brings a nonce.
    package internal(set) var proof: ProofRefusal?
    /// The reason for which a step-up failed.
    package var shortfall: StepUpShortfall?
    /// The step-up that a call needs.
    package var wanted: WantedStepUp?
    /// The reason for which a call does not show its user's presence.
    package internal(set) var presence: PresenceRefusal?
    /// Whether what the request was for has surely reached nobody.
    package var isUnsent = false

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

extension BrokerProblem {
    /// Creates the problem of a store that failed: 503, and the cookie stays.
    package init(_ failure: StoreFailure) {
        switch failure {
        case .unavailable(let detail), .inDoubt(let detail):
            self.init(.storeUnavailable, privateDetail: detail, retryAfter: .seconds(2))
        case .full: self.init(.storeUnavailable, privateDetail: "the disk is full", retryAfter: .seconds(10))
        case .newerFormat:
            self.init(.storeUnavailable, privateDetail: "a row of a newer format", retryAfter: .seconds(5))
        }
    }

    /// The problem of a session whose provider or client is not configured: it may be again, so the session stays.
    static var notConfigured: BrokerProblem {
        BrokerProblem(
            .providerUnavailable, detail: "The session's provider or client is not configured here at the moment.",
            privateDetail: "the session's provider or client is not in the configuration", retryAfter: .seconds(30))
    }

    /// Creates the problem of a sealed value that cannot be read now: its key is not here yet, a newer version wrote it,
    /// or the vault itself fails.
    ///
    /// Nil for a value that was changed, which is the caller's use case's to judge.
    package init?(opening error: any Error) {
        switch error {
        case VaultFailure.doesNotOpen, RecordFailure.malformed: return nil
        case let failure as VaultFailure: self.init(failure)
        case RecordFailure.newerFormat: self.init(StoreFailure.newerFormat)
        default: return nil
        }
    }

    /// Creates the problem of a vault that failed.
    ///
    /// A row that does not open is the caller's use case's to judge.
    package init(_ failure: VaultFailure) {
        switch failure {
        case .unknownKey(let id):
            self.init(.storeUnavailable, privateDetail: "key \(id) is not in this ring", retryAfter: .seconds(5))
        case .doesNotOpen: self.init(.internalError, privateDetail: "a sealed value does not open")
        case .unavailable: self.init(.internalError, privateDetail: "a cryptographic operation failed")
        }
    }
}

extension BrokerProblem {
    /// Creates the problem of a provider call in which no single-use secret was at stake (discovery, PAR, a start).
    package init(starting failure: ProviderFailure) {
        switch failure {
        case .notSent, .lost:
            self.init(.providerUnavailable, privateDetail: failure.detail, retryAfter: .seconds(5))
        case .retryable(_, let retryAfter, _):
            self.init(.providerUnavailable, privateDetail: failure.detail, retryAfter: retryAfter ?? .seconds(5))
        case .rejected(let error):
            self.init(
                .providerError, privateDetail: failure.detail, providerError: CallbackError.standardWord(error.code))
        case .unusable: self.init(.providerError, privateDetail: failure.detail)
        case .identityRejected: self.init(.identityRejected, privateDetail: failure.detail)
        }
    }

    /// Creates the problem of an error in a callback (RFC 6749 section 4.1.2.1, OpenID Connect Core 3.1.2.6, and dialects).
    ///
    /// `isSilent` is whether the login is known to have said `prompt=none`. Of the text only a standard's word is shown.
    package init(_ error: CallbackError, isSilent: Bool = false) {
        let code: ProblemCode =
            switch error.code {
            case "access_denied", "user_denied", "user_cancelled_authorize", "user_cancelled_login",
                "unauthorized-user":
                .accessDenied
            case "login_required", "interaction_required", "account_selection_required": .interactionRequired
            // Without `prompt=none` the user was asked, and did not consent.
            case "consent_required": isSilent ? .interactionRequired : .accessDenied
            case "temporarily_unavailable", "server_error": .providerUnavailable
            default: .providerError
            }
        let word = CallbackError.standardWord(error.code)
        self.init(
            code, privateDetail: "callback error: \(word ?? "not a standard's word")",
            retryAfter: code == .providerUnavailable ? .seconds(5) : nil, providerError: word)
    }
}
