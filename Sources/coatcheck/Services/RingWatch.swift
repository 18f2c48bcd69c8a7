import Broker
import BrokerStore
import BrokerVault
import Synchronization

/// Tries now and then whether the key ring opens what is stored; where it does not, readiness turns red.
final class RingWatch: Sendable {
    private let vault: OpenSSLVault
    private let store: any StoreAdministration
    private let log: ProcessLog
    /// Guards what was found last.
    private let found = Mutex<RingCheck?>(nil)

    private static let interval = Duration.seconds(30)
    /// While it does not fit, somebody is mending it.
    private static let faultyInterval = Duration.seconds(2)

    init(_ vault: OpenSSLVault, _ store: any StoreAdministration, log: ProcessLog) {
        self.vault = vault
        self.store = store
        self.log = log
    }

    /// Whether the ring opened the store's rows when it was tried last.
    var isGood: Bool { found.withLock { $0?.isGood ?? true } }

    /// What was found last, in words.
    var description: String { found.withLock { $0?.description ?? "" } }

    /// Tries it; a store that does not answer says nothing about the keys.
    func look() async {
        guard let check = try? await RingCheck.run(store, vault) else { return }
        let before = found.withLock { found in
            defer { found = check }
            return found
        }
        if !check.isGood, before?.isGood != false {
            log.write(.error, "the key ring is not the store's", [("detail", "\(check)")])
        } else if check.isGood, before?.isGood == false {
            log.write(.notice, "the key ring opens the store again", [("detail", "\(check)")])
        } else if check.isGood, check.opened < check.tried, before.map({ $0.opened == $0.tried }) ?? true {
            log.write(.warning, "some rows do not open", [("detail", "\(check)")])
        }
    }

    /// The work of trying it.
    func service(_ clock: BrokerClock) -> RepeatedWork {
        RepeatedWork(clock: clock, delay: Self.faultyInterval) { [self] in
            await look()
            return isGood ? Self.interval : Self.faultyInterval
        }
    }
}
