/// A refusal or failure that is reported to the caller.
///
/// A problem has a stable `code` (which fixes the status), a text for the caller, and a private detail for the log. One place
/// (`ProblemResponder`) makes a response from the problem.
package struct BrokerProblem: Error, Sendable {
    package var code: ProblemCode
    /// The text for the caller in the broker's own words; it never contains input or a secret.
    ///
    /// Nil selects the code's standard sentence.
    package var detail: String?
    /// The detail for the log, which the caller never receives.
    package var privateDetail: String?
    /// The additional value of some codes, for example the faulty fields of the request, or the reason for the session's end.
    package var payload: ProblemPayload
    /// `new_login` if another attempt with the same code cannot succeed; nil otherwise.
    package var retry: String?
    package var retryAfter: Duration?

    package init(
        _ code: ProblemCode, detail: String? = nil, privateDetail: String? = nil,
        with payload: ProblemPayload = .none, retry: String? = nil, retryAfter: Duration? = nil
    ) {
        self.code = code
        self.detail = detail
        self.privateDetail = privateDetail
        self.payload = payload
        self.retry = retry
        self.retryAfter = retryAfter
    }

    /// The reason for the session's end, in the form that callers may see; nil for other problems.
    package var reason: EndReason? {
        if case .ended(let reason) = payload { reason?.shown } else { nil }
    }

    /// The refusal of the session's evidence; nil for other problems.
    package var proof: ProofRefusal? {
        if case .proof(let refusal) = payload { refusal } else { nil }
    }

    /// The refusal of a presence proof; nil for other problems.
    package var presence: PresenceRefusal? {
        if case .presence(let refusal) = payload { refusal } else { nil }
    }
}

extension BrokerProblem {
    /// Creates the problem for a failure of the store.
    ///
    /// The answer is 503, and the cookie is kept.
    package init(_ failure: StoreFailure) {
        switch failure {
        case .unavailable(let detail), .inDoubt(let detail):
            self.init(.storeUnavailable, privateDetail: detail, retryAfter: .seconds(2))
        case .full: self.init(.storeUnavailable, privateDetail: "the disk is full", retryAfter: .seconds(10))
        case .newerFormat:
            self.init(
                .storeUnavailable, privateDetail: "a newer release wrote the row; finish the upgrade of all replicas",
                retryAfter: .seconds(5))
        }
    }

    /// The problem for a session whose provider or client is missing from the configuration.
    ///
    /// A later configuration may contain it again, so the session is kept.
    static var notConfigured: BrokerProblem {
        BrokerProblem(
            .providerUnavailable, detail: "The session's provider or client is not configured here at the moment.",
            privateDetail: "the session's provider or client is not in the configuration", retryAfter: .seconds(30))
    }

    /// Creates the problem for a sealed value that cannot be opened at the moment.
    ///
    /// There are three possible causes: this process lacks the key, a newer version sealed the value, or the vault itself
    /// fails. If the value was changed, the result is nil, because the calling use case must decide about it.
    package init?(opening error: any Error) {
        switch error {
        case VaultFailure.doesNotOpen, RecordFailure.malformed: return nil
        case let failure as VaultFailure: self.init(failure)
        case RecordFailure.newerFormat: self.init(StoreFailure.newerFormat)
        default: return nil
        }
    }

    /// Creates the problem for a failure of the vault.
    ///
    /// For a row that fails to open, the calling use case must decide instead.
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
    /// Creates the problem for a failed provider call that sent no single-use secret (discovery, PAR, a start).
    package init(starting failure: ProviderFailure) {
        switch failure {
        case .notSent, .lost:
            self.init(.providerUnavailable, privateDetail: failure.detail, retryAfter: .seconds(5))
        case .retryable(_, let retryAfter, _):
            self.init(.providerUnavailable, privateDetail: failure.detail, retryAfter: retryAfter ?? .seconds(5))
        case .rejected(let error):
            self.init(
                .providerError, privateDetail: failure.detail, with: .provider(CallbackError.standardWord(error.code)))
        case .unusable: self.init(.providerError, privateDetail: failure.detail)
        case .identityRejected: self.init(.identityRejected, privateDetail: failure.detail)
        }
    }

    /// Creates the problem for an error in a callback (RFC 6749 section 4.1.2.1, OpenID Connect Core 3.1.2.6, and some
    /// providers' own codes).
    ///
    /// `isSilent` is true if the login is known to have sent `prompt=none`. The provider's error code is shown only if a
    /// standard defines it.
    package init(_ error: CallbackError, isSilent: Bool = false) {
        let code: ProblemCode =
            switch error.code {
            case "access_denied", "user_denied", "user_cancelled_authorize", "user_cancelled_login",
                "unauthorized-user":
                .accessDenied
            case "login_required", "interaction_required", "account_selection_required": .interactionRequired
            // Without `prompt=none`, the user was asked and refused.
            case "consent_required": isSilent ? .interactionRequired : .accessDenied
            case "temporarily_unavailable", "server_error": .providerUnavailable
            default: .providerError
            }
        let word = CallbackError.standardWord(error.code)
        self.init(
            code, privateDetail: "callback error: \(word ?? "not a standard's word")", with: .provider(word),
            retryAfter: code == .providerUnavailable ? .seconds(5) : nil)
    }
}
