import Broker
import BrokerStore
import BrokerVault
import Synchronization

/// Tries now and then whether the key ring opens what is stored; where it does not, readiness turns red.
///
/// A ring that opens nothing is not the store's: nothing is begun under it, and the file's ring takes its place, index key
/// and all, as soon as that one opens something.
final class RingWatch: Sendable {
    private struct State {
        /// The last finding.
        var found: RingCheck?
        /// Keys of rings that were not the store's, as far as anybody has asked: the store remembers them.
        var strangers: Set<String> = []
    }

    private let vault: OpenSSLVault
    private let keys: KeyWatch
    private let store: any AdministeredStore
    private let now: @Sendable () -> WallTime
    private let log: ProcessLog
    private let state = Mutex(State())

    private static let interval = Duration.seconds(30)
    /// While it does not fit, somebody is mending it.
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

    /// Whether the ring opened the store's rows when it was tried last.
    var isGood: Bool { state.withLock { $0.found?.isGood ?? true } }

    /// The last finding, in words; empty where there is nothing to say.
    var description: String { state.withLock { $0.found?.description ?? "" } }

    /// The values that were sealed by a ring that was not the store's, in words; nil where there are none.
    var foreign: String? { state.withLock { state in state.found.flatMap { $0.foreign > 0 ? "\($0)" : nil } } }

    /// Tries it; a store that does not answer says nothing about the keys.
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

    /// Returns those of the keys that were none of the store's.
    private func strangers(among ids: Set<String>) async -> Set<String> {
        let known = state.withLock { $0.strangers }
        let found = known.union(await ForeignKeys.known(among: ids.subtracting(known), store))
        state.withLock { $0.strangers.formUnion(found) }
        return found
    }

    /// The work of trying it.
    func service(_ clock: BrokerClock) -> RepeatedWork {
        RepeatedWork(clock: clock, delay: Self.faultyInterval) { [self] in
            await look()
            // One that could not be tried yet is tried soon.
            return state.withLock { $0.found?.isGood ?? false } ? Self.interval : Self.faultyInterval
        }
    }
}
