import Synchronization

/// Seals the stored values of older keys again under the newest key, while the broker serves requests (SEC-49).
///
/// One process at a time does this, in batches. If another call changes a value after it was read, the changed value stays.
package final class Resealing: Sendable {
    /// The state of the resealing, with the number of values so far.
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
        /// The newest key, which seals the values again.
        package var key: String?
        /// The number of values to check.
        ///
        /// The number is an estimate until the state is `done`.
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
        /// The number of times that resealing has begun.
        ///
        /// If this number has changed during a step, another resealing has begun, so the step's result is dropped.
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

    /// Starts resealing at the first column, unless resealing with the newest key is already running.
    ///
    /// Each call of `step` then checks one batch of values.
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

    /// Checks one batch of values; returns whether values are left to check.
    package func step() async throws(StoreFailure) -> Bool {
        let before = state.withLock { $0 }
        guard let place = before.place, let key = before.progress.key else { return false }
        guard try await takeLease() else {
            state.withLock { $0.begin(Progress(state: .elsewhere)) }
            return false
        }
        // If an operator has rotated the key ring since this resealing began, begin again with the newest key.
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
                // Rows were added and removed during the work. So `total` was only an estimate; replace it by the number of
                // values that were checked.
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
    /// The column that is resealed after this column; nil for the last column.
    fileprivate var next: SealedPlace? {
        Self.allCases.firstIndex(of: self).map { Self.allCases.index(after: $0) }
            .flatMap { Self.allCases.indices.contains($0) ? Self.allCases[$0] : nil }
    }
}
