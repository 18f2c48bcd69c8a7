/// An operation of the in-memory store that a test can make fail.
package enum FaultyOperation: Sendable {
    case claimExchange, renewExchange, completeExchange, completeStepUp, sessions, claimRefresh, renewRefresh,
        commitRefresh, condemnRefresh, markSubjectChecked
}
