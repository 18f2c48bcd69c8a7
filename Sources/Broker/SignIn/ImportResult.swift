/// The result of one post of tokens that an app already holds, as `coatcheck_moved_total` counts it.
package enum ImportResult: String, Sendable, CaseIterable {
    case moved
    /// The tokens were imported before, or by another post at the same time.
    case repeated
    case grantRevoked = "grant_revoked"
    case refreshLost = "refresh_lost"
    case notBound = "not_bound"
    case expired
    case unknownSession = "unknown_session"
    /// The user's identity was rejected.
    case identity
    /// The provider refuses the broker's client or its proof, so the configuration may be wrong.
    case wrongClient = "wrong_client"
    /// The time for imports is over, so the app goes on as before.
    case closed
    /// A limit of requests or sessions was reached.
    case limited
    /// The same post may succeed later.
    case unavailable

    /// Returns the result of a post that failed; nil for a faulty request, which is left uncounted.
    init?(_ problem: BrokerProblem) {
        if case .importFailed(let end) = problem.payload {
            self = Self(end)
            return
        }
        if case .importRefused(.closed) = problem.payload {
            self = .closed
            return
        }
        switch problem.code {
        case .codeAlreadyUsed: self = .repeated
        case .identityRejected: self = .identity
        case .providerError: self = .wrongClient
        case .tooManySessions, .rateLimited: self = .limited
        case .providerUnavailable, .storeUnavailable, .internalError: self = .unavailable
        default: return nil
        }
    }

    private init(_ end: ImportEnd) {
        switch end {
        case .grantRevoked: self = .grantRevoked
        case .refreshLost: self = .refreshLost
        case .notBound: self = .notBound
        case .expired: self = .expired
        case .unknownSession: self = .unknownSession
        }
    }
}
