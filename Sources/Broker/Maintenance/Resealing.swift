import Synchronization

/// Seals again under the newest key what older ones have sealed, beside the traffic: in batches, by whoever holds the
/// lease, each value only where it still is what was read (SEC-49).
package final class Resealing: Sendable {
    /// The state of the work, with its counts.
    package struct Progress: Sendable, Equatable {
        package enum State: String, Sendable {
            /// Nothing was asked for since the start.
            case idle
            case running
            /// Another process is at it.
            case elsewhere
            case done
        }

        package var state = State.idle
        /// The key that it seals with.
        package var key: String?
        /// The number of values to look at.
        package var total = 0
        package var seen = 0
        package var resealed = 0
        /// The number of values that do not open, or name a key that this process does not have.
        package var unopened = 0
    }

    private struct State {
        var progress = Progress()
        var place: SealedPlace?
        var cursor: Digest?
        /// Counts beginnings: what a step of another one found is forgotten.
        var generation = 0

        mutating func begin(_ progress: Progress, at place: SealedPlace? = nil) {
            self = State(progress: progress, place: place, generation: generation + 1)
        }
    }

    /// The number of values looked at in a step.
    private static let batch = 200
    private static let leaseName = "reseal"
    private static let lease = Duration.seconds(30)

    private let context: BrokerContext
    private let store: any StoreAdministration
    private let owner: String
    /// Guards how far it has come; the steps come one after the other.
    private let state = Mutex(State())

    /// Creates it; `owner` tells this process from others.
    package init(_ context: BrokerContext, _ store: any StoreAdministration, owner: String) {
        self.context = context
        self.store = store
        self.owner = owner
    }

    package var progress: Progress { state.withLock { $0.progress } }

    /// Begins from the first place, unless it runs already under the same key; the steps do the work.
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
        // A session has three places for values.
        let total =
            [StoredKind.logins, .handoffs, .registrations, .outbox, .audiences].reduce(0) {
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
        // Another rotation begins it anew.
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
                // Values that came meanwhile were sealed with the new key.
                state.progress.total = state.progress.seen
            }
            return state.place != nil
        }
    }

    /// Gives the lease up, when this process stops for good: another may be asked at once.
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
    /// The place that comes after this one; nil after the last.
    fileprivate var next: SealedPlace? {
        Self.allCases.firstIndex(of: self).map { Self.allCases.index(after: $0) }
            .flatMap { Self.allCases.indices.contains($0) ? Self.allCases[$0] : nil }
    }
}
