/// An operation of the in-memory store that a test may have fail.
package enum FaultyOperation: Sendable {
    case claimExchange, renewExchange, completeExchange, completeStepUp, sessions, claimRefresh, renewRefresh,
        commitRefresh, condemnRefresh, markSubjectChecked
}
