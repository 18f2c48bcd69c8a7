import Synchronization

/// Claims rows of every kind.
///
/// The shell claims a row, retries under the same name, and renews the claim while its owner works. It also waits for the
/// claims of other owners, and releases claims that are not used.
struct ClaimShell<Row: ClaimedRow>: Sendable {
    let context: BrokerContext
    let row: Row
    let held = HeldClaim()

    init(_ row: Row, _ context: BrokerContext) {
        self.row = row
        self.context = context
    }

    // MARK: Asking

    /// Claims a row, and retries under the same name after a lost answer, even if the store fails again.
    ///
    /// If `again` stops the retries although the store may have granted the claim, the claim is released in the background.
    ///
    /// - Parameters:
    ///   - request: The claim.
    ///   - again: Called with each failure that may have left a claim; returns whether to retry.
    /// - Returns: The store's answer.
    /// - Throws: The last failure.
    func ask(
        _ request: Row.Request, again: (StoreFailure) async -> Bool
    ) async throws(StoreFailure) -> Row.Answer {
        var failure: StoreFailure
        do throws(StoreFailure) { return try await row.claim(request) } catch { failure = error }
        guard case .inDoubt = failure else { throw failure }
        while await again(failure) {
            do throws(StoreFailure) { return try await row.claim(request) } catch { failure = error }
        }
        let row = row
        giveBack(after: Row.pauseBeforeGivingBack) { () async throws(StoreFailure) in
            try await row.giveBack(try await row.claim(request), to: request)
        }
        throw failure
    }

    // MARK: Releasing

    /// Releases a claim in the background, after a pause.
    ///
    /// Retries end when the claim's lifetime and grace are over, because other owners can then claim the row anyway.
    func giveBack(
        after pause: Duration, _ giveBack: @escaping @Sendable () async throws(StoreFailure) -> Void
    ) {
        let context = context
        let end = context.clock.monotonic() + context.settings.claimLifetime + Row.grace
        context.spawner.spawn("giveBackClaim") {
            var pause = pause
            while context.clock.monotonic() < end {
                if pause > .zero {
                    do { try await context.clock.sleep(pause) } catch { return }
                }
                do throws(StoreFailure) { return try await giveBack() } catch {
                    context.events.emit(.storeFailed(operation: "giveBackClaim", detail: "\(error)"))
                }
                pause = .milliseconds(500)
            }
        }
    }

    // MARK: Renewing

    /// Does the owner's work, and renews the claim during the work.
    ///
    /// Once a second, this method checks whether a renewal is due.
    ///
    /// - Parameters:
    ///   - look: Called with the time at each check.
    ///   - work: The owner's work.
    /// - Returns: The work's outcome.
    func whileRenewing<Outcome: Sendable>(
        look: @escaping @Sendable (Duration) -> Void = { _ in }, _ work: () async -> Outcome
    ) async -> Outcome {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await keepAlive(look: look) }
            let outcome = await work()
            group.cancelAll()
            return outcome
        }
    }

    private func keepAlive(look: (Duration) -> Void) async {
        while !Task.isCancelled {
            do { try await context.clock.sleep(.seconds(1)) } catch { return }
            let moment = context.clock.monotonic()
            look(moment)
            guard let fence = held.due(at: moment) else { continue }
            switch await renew(fence) {
            case true: held.renewed(at: moment)
            case false: held.drop()
            case nil: break
            }
        }
    }

    /// Renews the claim with a fence; returns whether the claim still exists, or nil if the store failed.
    func renew(_ fence: Int64) async -> Bool? {
        do throws(StoreFailure) { return try await row.renew(fence, for: context.settings.claimLifetime) } catch {
            failed(Row.renewal, error)
            return nil
        }
    }

    // MARK: Waiting

    /// The reason why a wait for another owner's claim ended.
    enum WaitEnd {
        case lapsed, patienceOver
        /// The caller has stopped waiting for the answer.
        case cancelled
    }

    /// Waits, by polling, while another owner's claim exists (`stands`), at most until the moment `patience`.
    func wait(
        until patience: Duration, _ pause: inout DoublingPause, while stands: () async throws(StoreFailure) -> Bool
    ) async throws(StoreFailure) -> WaitEnd {
        while context.clock.monotonic() < patience {
            do { try await pause.take(context.clock) } catch { return .cancelled }
            guard try await stands() else { return .lapsed }
        }
        return .patienceOver
    }

    // MARK: Failing

    /// Emits the event that a store operation failed.
    func failed(_ operation: StaticString, _ failure: StoreFailure) {
        // A row of a newer format does not show that the store is unavailable, so do not note an outage.
        if failure != .newerFormat { context.memory.store.failed(at: context.clock.monotonic()) }
        context.events.emit(.storeFailed(operation: operation, detail: "\(failure)"))
    }
}

/// The claim of a flight or an exchange, which is renewed while its owner works.
final class HeldClaim: Sendable {
    private struct State {
        var fence: Int64?
        var renewedAt = Duration.zero
    }

    /// The age at which a claim is renewed.
    static let renewal = Duration.seconds(8)

    /// Guards the fence and the time of the last renewal.
    private let state = Mutex(State())

    func take(_ fence: Int64, at moment: Duration) {
        state.withLock { $0 = State(fence: fence, renewedAt: moment) }
    }

    func drop() { state.withLock { $0.fence = nil } }

    func renewed(at moment: Duration) { state.withLock { $0.renewedAt = moment } }

    /// Returns the fence of a claim that is to be renewed now, or nil.
    func due(at moment: Duration) -> Int64? {
        state.withLock { state in moment - state.renewedAt >= Self.renewal ? state.fence : nil }
    }
}

extension BrokerClock {
    /// Retries a write until it succeeds, however long the store is unavailable, because the input of the write exists only
    /// in this process.
    ///
    /// Returns nil if the process ends first.
    @discardableResult
    func insist<Value, Failure: Error>(
        _ write: () async throws(Failure) -> Value, failed: (Failure) -> Void
    ) async -> Value? {
        var pause = DoublingPause(from: .milliseconds(50), to: .seconds(1))
        while true {
            do throws(Failure) { return try await write() } catch { failed(error) }
            do { try await pause.take(self) } catch { return nil }
        }
    }
}

/// A row that an owner has to claim before it calls the provider: an exchange, or a session that is refreshed.
///
/// The store decides whether a claim is granted. When the claim of a code's exchange lapses, the exchange is spent. When the
/// claim of a refresh or an import lapses, another owner can take the claim over.
protocol ClaimedRow: Sendable {
    /// The row to claim, with the claim's name.
    associatedtype Request: Sendable
    associatedtype Answer: Sendable

    /// The name of the store operation that renews a claim.
    static var renewal: StaticString { get }
    /// The pause before the first attempt to release a claim whose grant is unknown, because the store's response was lost.
    static var pauseBeforeGivingBack: Duration { get }
    /// The time after a claim's lapse during which other owners still cannot claim the row.
    static var grace: Duration { get }

    /// Claims the row. A retry under the same name gets the same claim.
    func claim(_ request: Request) async throws(StoreFailure) -> Answer

    /// Releases a granted claim, as if the row had not been claimed. A claim that was refused is ignored.
    func giveBack(_ answer: Answer, to request: Request) async throws(StoreFailure)

    /// Extends a claim, so that it ends `lifetime` from now; returns false if another owner has the claim.
    func renew(_ fence: Int64, for lifetime: Duration) async throws(StoreFailure) -> Bool
}
