import Synchronization

/// Remembers the series for each kind of request or call, so that frequent code needs no lookup by labels.
final class KnownSeries<Key: Hashable & Sendable, Series: Sendable>: Sendable {
    /// Guards the table.
    ///
    /// Its keys come from fixed sets, and the registry limits their number.
    private let table = Mutex<[Key: Series]>([:])

    /// Returns the series of `key`, and makes them at the first call.
    func find(_ key: Key, make: () -> Series) -> Series {
        if let found = table.withLock({ $0[key] }) { return found }
        let made = make()
        table.withLock { table in if table.count < 4096 { table[key] = made } }
        return made
    }
}
