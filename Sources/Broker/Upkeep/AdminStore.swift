/// Reseals the store for operators, and writes the audit records of reseals and backups (SEC-99).
package struct AdminStore: Sendable {
    private let context: BrokerContext
    private let store: any StoreAdministration
    private let resealing: Resealing

    package init(_ context: BrokerContext, _ store: any StoreAdministration, _ resealing: Resealing) {
        self.context = context
        self.store = store
        self.resealing = resealing
    }

    /// Returns the number of stored values that each key has sealed.
    ///
    /// An exchange is counted for as long as the broker may have to repeat its answer.
    package func keyUse() async throws(BrokerProblem) -> [String: Int] {
        do throws(StoreFailure) {
            return try await store.keyUse(
                exchangesSince: context.clock.now().advanced(by: .zero - context.settings.replayWindow - .seconds(60)))
        } catch { throw BrokerProblem(error) }
    }

    package var progress: Resealing.Progress { resealing.progress }

    /// Writes an audit record, and begins to seal all older values again under the newest key.
    package func reseal(actor: String) async throws(BrokerProblem) -> Resealing.Progress {
        try await audit("reseal_keys", actor)
        do throws(StoreFailure) { return try await resealing.begin() } catch { throw BrokerProblem(error) }
    }

    /// Writes an audit record of a backup.
    package func noteBackup(actor: String) async throws(BrokerProblem) { try await audit("backup", actor) }

    private func audit(_ action: String, _ actor: String) async throws(BrokerProblem) {
        do throws(StoreFailure) {
            try await context.store.appendAudit(
                AuditRow(at: context.clock.now(), actor: actor, action: action, target: "store", outcome: "begun"))
        } catch { throw BrokerProblem(error) }
        context.events.emit(.adminAction(actor: actor, action: action))
    }
}
