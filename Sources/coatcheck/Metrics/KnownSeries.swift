import Synchronization

/// Remembers the series of each kind of request or call, so that the hot path does not look them up by their labels.
final class KnownSeries<Key: Hashable & Sendable, Series: Sendable>: Sendable {
    /// Guards the table.
    ///
    /// Its keys come from fixed sets; the registry bounds what they could become.
    private let table = Mutex<[Key: Series]>([:])

    /// Returns the series of `key`; makes them when it is met for the first time.
    func find(_ key: Key, make: () -> Series) -> Series {
        if let found = table.withLock({ $0[key] }) { return found }
        let made = make()
        table.withLock { table in if table.count < 4096 { table[key] = made } }
        return made
    }
}
