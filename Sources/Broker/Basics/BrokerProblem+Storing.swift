extension BrokerProblem {
    /// Creates the problem for an error that a write has thrown.
    ///
    /// The error is a failure of the store or of the vault, or already a problem.
    init(storing error: any Error) {
        switch error {
        case let problem as BrokerProblem: self = problem
        case let failure as StoreFailure: self.init(failure)
        case let failure as VaultFailure: self.init(failure)
        default: self.init(.internalError)
        }
    }
}
