import Synchronization

/// Seals older values again under the newest key, while the broker serves requests (SEC-49).
///
/// The process that holds the lease works in batches. If a value was changed after it was read, the changed value stays as it
/// is.
package final class Resealing: Sendable {
    /// The state of the work, with its counts.
    package struct Progress: Sendable, Equatable {
        package enum State: String, Sendable {
            /// No resealing was requested since the start.
            case idle
            case running
            /// Another process is resealing.
            case elsewhere
            case done
        }

        package var state = State.idle
        /// The key for the new seals.
        package var key: String?
        /// The number of values that have to be checked.
        package var total = 0
        package var seen = 0
        package var resealed = 0
        /// The number of values that are damaged, or sealed with a key that this process lacks.
        package var unopened = 0
    }

    private struct State {
        var progress = Progress()
        var place: SealedPlace?
        var cursor: Digest?
        /// The number of starts so far.
        ///
        /// If it has changed during a step, the step's result is dropped.
        var generation = 0

        mutating func begin(_ progress: Progress, at place: SealedPlace? = nil) {
            self = State(progress: progress, place: place, generation: generation + 1)
        }
    }

    /// The number of values that one step checks.
    private static let batch = 200
    private static let leaseName = "reseal"
    private static let lease = Duration.seconds(30)

    private let context: BrokerContext
    private let store: any StoreAdministration
    private let owner: String
    /// Guards the progress; the steps run one after the other.
    private let state = Mutex(State())

    /// Creates the resealing; `owner` distinguishes this process from others.
    package init(_ context: BrokerContext, _ store: any StoreAdministration, owner: String) {
        self.context = context
        self.store = store
        self.owner = owner
    }

    package var progress: Progress { state.withLock { $0.progress } }

    /// Starts resealing at the first column, unless it is already running with the same key.
    ///
    /// Each call of `step` then does one batch.
    package func begin() async throws(StoreFailure) -> Progress {
        let key = context.vault.currentKeyID
        if progress.state == .running, progress.key == key { return progress }
        guard try await takeLease() else {
            return state.withLock { state in
                state.begin(Progress(state: .elsewhere))
                return state.progress
            }
        }
        let counts = try await store.rowCounts()
        // A session has up to three sealed values: facts, tokens and a presence key.
        let total =
            [StoredKind.logins, .handoffs, .registrations, .outbox, .targetTokens].reduce(0) {
                $0 + counts[$1, default: 0]
            }
            + 3 * counts[.sessions, default: 0]
        return state.withLock { state in
            state.begin(Progress(state: .running, key: key, total: total), at: .facts)
            return state.progress
        }
    }

    /// Does one batch; returns whether there is more to do.
    package func step() async throws(StoreFailure) -> Bool {
        let before = state.withLock { $0 }
        guard let place = before.place, let key = before.progress.key else { return false }
        guard try await takeLease() else {
            state.withLock { $0.begin(Progress(state: .elsewhere)) }
            return false
        }
        // If the ring was rotated again, begin again with the new key.
        guard key == context.vault.currentKeyID else {
            _ = try await begin()
            return true
        }
        let page = try await store.sealedRows(of: place, notUnder: key, after: before.cursor, limit: Self.batch)
        var unopened = 0
        var rows: [ResealedRow] = []
        for row in page.rows {
            do throws(VaultFailure) {
                let plaintext = try context.vault.open(row.sealed, as: row.place.kind, row: row.boundTo)
                let new = try context.vault.seal(plaintext, as: row.place.kind, row: row.boundTo)
                if new.keyID == key { rows.append(ResealedRow(row, new: new)) }
            } catch {
                guard error != .unavailable else { throw .unavailable("the vault") }
                unopened += 1
            }
        }
        let resealed = try await store.reseal(rows)
        return state.withLock { state in
            guard state.generation == before.generation else { return state.place != nil }
            state.progress.seen += page.seen
            state.progress.resealed += resealed
            state.progress.unopened += unopened
            state.cursor = page.next
            if page.next == nil { state.place = place.next }
            if state.place == nil {
                state.progress.state = .done
                // Rows were added and removed during the work. So report the number of values that were really checked.
                state.progress.total = state.progress.seen
            }
            return state.place != nil
        }
    }

    /// Releases the lease when this process stops, so that another process can begin at once.
    package func stop() async throws(StoreFailure) {
        guard progress.state == .running || progress.state == .done else { return }
        try await context.store.releaseLease(Self.leaseName, owner: owner)
    }

    private func takeLease() async throws(StoreFailure) -> Bool {
        let now = context.clock.now()
        return try await context.store.acquireLease(
            Self.leaseName, owner: owner, now: now, until: now.advanced(by: Self.lease))
    }
}

extension SealedPlace {
    /// The column of sealed values after this one; nil after the last.
    fileprivate var next: SealedPlace? {
        Self.allCases.firstIndex(of: self).map { Self.allCases.index(after: $0) }
            .flatMap { Self.allCases.indices.contains($0) ? Self.allCases[$0] : nil }
    }
}
