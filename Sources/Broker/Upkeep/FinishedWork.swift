import Synchronization

/// Removes finished rows from the outbox.
///
/// Rows that finish during a removal are removed together in the next transaction.
///
/// If the process dies before it removes a row, the row's work is done again when the row is due again.
final class FinishedWork: Sendable {
    private struct State {
        var waiting: [Digest] = []
        var isRemoving = false
    }

    /// The largest number of rows that one transaction removes.
    private static let most = 256

    /// Guards the waiting rows and the removal in progress.
    private let state = Mutex(State())

    /// Removes a row now, or leaves it to the caller that is removing rows.
    func remove(_ id: Digest, from store: any MaintenanceStore) async throws(StoreFailure) {
        let isFirst = state.withLock { state in
            state.waiting.append(id)
            defer { state.isRemoving = true }
            return !state.isRemoving
        }
        guard isFirst else { return }
        while true {
            let batch = state.withLock { state in
                let batch = Array(state.waiting.prefix(Self.most))
                state.waiting.removeFirst(batch.count)
                state.isRemoving = !batch.isEmpty
                return batch
            }
            guard !batch.isEmpty else { return }
            do throws(StoreFailure) { try await store.removeOutbox(batch) } catch {
                state.withLock { $0.isRemoving = false }
                throw error
            }
        }
    }
}
