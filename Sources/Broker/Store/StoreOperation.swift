/// The operations of a store, with their names in metrics, spans and the log.
package enum StoreOperation: String, Sendable, CaseIterable {
    case insertLogin, login, pendingLogins, burnLogin
    case claimExchange, exchange, renewExchange, releaseExchange, settleExchange, completeExchange
    case claimImport, releaseImport, countImportCall, keepPair, keptPair, noteImportGrant, hasImportGrant
    case completeStepUp
    case session, sessions, endSessions, slideSession, children, insertChild
    case claimRefresh, renewRefresh, refreshState, commitRefresh, releaseRefresh, markSubjectChecked, condemnRefresh
    case registerPresence
    case targetToken = "audience", keepTargetToken = "keepAudience", useTargetToken = "useAudience"
    case keepHandoff, handoff, handoffOfLogin, registration, insertRegistration
    case addOutbox, takeOutbox, postponeOutbox, removeOutbox, outboxCount, consumeLogoutToken
    case acquireLease, releaseLease, countSeals, appendAudit, lease, sweep

    /// The kinds of store operations.
    ///
    /// They differ in their need for disk space.
    package enum Kind: Sendable {
        /// The operation writes nothing.
        case reading
        /// The operation changes rows that are still in the expected state. If no row is in this state, the operation
        /// succeeds and writes nothing.
        case changing
        /// The operation writes in every case, so a success proves that the disk had space.
        case writing
        /// The operation continues on a full disk, in the space that is reserved for it.
        case ending
    }

    package var kind: Kind {
        switch self {
        case .login, .pendingLogins, .exchange, .session, .sessions, .children, .refreshState, .handoff,
            .handoffOfLogin, .registration, .outboxCount, .lease, .targetToken, .keptPair,
            .hasImportGrant:
            .reading
        case .burnLogin, .renewExchange, .releaseExchange, .settleExchange, .completeExchange, .slideSession,
            .claimRefresh, .renewRefresh, .commitRefresh, .releaseRefresh, .markSubjectChecked, .condemnRefresh,
            .keepHandoff, .insertRegistration, .addOutbox, .takeOutbox, .postponeOutbox, .removeOutbox, .countSeals,
            .appendAudit, .insertChild, .completeStepUp, .keepTargetToken, .useTargetToken, .registerPresence,
            .releaseImport, .countImportCall, .keepPair, .claimImport, .noteImportGrant:
            .changing
        case .insertLogin, .claimExchange, .acquireLease, .releaseLease, .sweep: .writing
        case .endSessions, .consumeLogoutToken: .ending
        }
    }
}
