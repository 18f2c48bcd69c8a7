import Synchronization

/// Removes outbox rows whose revocations and log-outs are done.
///
/// While one transaction removes rows, further rows may become ready. The next transaction removes them together.
///
/// If the process dies before it removes a row, the revocation is repeated as soon as the row is due again.
final class FinishedWork: Sendable {
    private struct State {
        var waiting: [Digest] = []
        var isRemoving = false
    }

    /// The largest number of rows that one transaction removes.
    private static let most = 256

    /// Guards the rows that wait for their removal, and the note that a removal is in progress.
    private let state = Mutex(State())

    /// Removes a row now.
    ///
    /// If another caller is removing rows, leaves the row to this caller.
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
