import Broker
import BrokerStore
import BrokerVault
import Synchronization

/// Checks at intervals whether the key ring opens the stored values; if not, the broker reports unready.
///
/// A ring that opens no value belongs to another store, so the broker refuses new sign-ins while it uses that ring. If the ring
/// in the key file opens a value, this ring and its index key replace the wrong ones.
final class RingWatch: Sendable {
    private struct State {
        /// The last result.
        var found: RingCheck?
        /// The ids of the keys of wrong rings that brokers used for this store.
        ///
        /// The store has all of these ids too. This set avoids reading them again.
        var strangers: Set<String> = []
    }

    private let vault: OpenSSLVault
    private let keys: KeyWatch
    private let store: any AdministeredStore
    private let now: @Sendable () -> WallTime
    private let log: ProcessLog
    private let state = Mutex(State())

    private static let interval = Duration.seconds(30)
    /// The pause between checks while the ring does not open the values.
    ///
    /// The pause is short, because an operator is probably replacing the ring.
    private static let faultyInterval = Duration.seconds(2)

    init(
        _ vault: OpenSSLVault, _ keys: KeyWatch, _ store: any AdministeredStore,
        now: @escaping @Sendable () -> WallTime, log: ProcessLog
    ) {
        self.vault = vault
        self.keys = keys
        self.store = store
        self.now = now
        self.log = log
    }

    /// Whether the ring opened the store's rows at the last check.
    var isGood: Bool { state.withLock { $0.found?.isGood ?? true } }

    /// The last result in words; empty before the first check.
    var description: String { state.withLock { $0.found?.description ?? "" } }

    /// The number of values that a wrong ring sealed, in words; nil if it is zero.
    var foreign: String? { state.withLock { state in state.found.flatMap { $0.foreign > 0 ? "\($0)" : nil } } }

    /// Checks the ring once.
    ///
    /// If the store does not answer, the last result stays.
    func look() async {
        guard let sample = try? await RingCheck.sample(of: store, vault) else { return }
        var check = RingCheck(sample, vault)
        if check.opensNothing, let other = keys.refused, let candidate = try? OpenSSLVault(ring: other, at: now()),
            RingCheck(sample, candidate).opened > 0
        {
            let gone = keys.takeWhole(other)
            state.withLock { $0.strangers.formUnion(gone) }
            await ForeignKeys.note(gone, at: now(), store)
            check = RingCheck(sample, vault)
        }
        if !check.missing.isEmpty {
            check = RingCheck(sample, vault, strangers: await strangers(among: check.missing))
        }
        vault.note(isTheStores: !check.opensNothing)
        say(check)
    }

    private func say(_ check: RingCheck) {
        let before = state.withLock { state in
            defer { state.found = check }
            return state.found
        }
        if !check.isGood, before?.isGood != false {
            log.write(.error, "the key ring is not the store's", [("detail", "\(check)")])
        } else if check.isGood, before?.isGood == false {
            log.write(.notice, "the key ring opens the store again", [("detail", "\(check)")])
        } else if check.isGood, check.opened < check.tried, before.map({ $0.opened == $0.tried }) ?? true {
            log.write(.warning, "some rows do not open", [("detail", "\(check)")])
        }
    }

    /// Returns those of `ids` that belong to wrong rings.
    private func strangers(among ids: Set<String>) async -> Set<String> {
        let known = state.withLock { $0.strangers }
        let found = known.union(await ForeignKeys.known(among: ids.subtracting(known), store))
        state.withLock { $0.strangers.formUnion(found) }
        return found
    }

    /// Returns the service that repeats the check.
    func service(_ clock: BrokerClock) -> RepeatedWork {
        RepeatedWork(clock: clock, delay: Self.faultyInterval) { [self] in
            await look()
            // If the ring could not be checked yet, check again soon.
            return state.withLock { $0.found?.isGood ?? false } ? Self.interval : Self.faultyInterval
        }
    }
}
