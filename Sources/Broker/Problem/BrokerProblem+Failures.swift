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
