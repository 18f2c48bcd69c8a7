import Broker

/// The keys of rings that stood in the place of the store's, as the store remembers them: leases that nobody renews
/// (decision 54).
enum ForeignKeys {
    /// Longer than a row lives that one of them has sealed.
    private static let memory = Duration.seconds(10 * 365 * 86_400)

    /// Returns which of these keys are such.
    static func known(among ids: Set<String>, _ store: any BrokerStore) async -> Set<String> {
        var known: Set<String> = []
        for id in ids where (try? await store.lease(name(of: id))) != nil { known.insert(id) }
        return known
    }

    /// Has the store remember them; where it does not, whoever found out remembers.
    static func note(_ ids: Set<String>, at now: WallTime, _ store: any BrokerStore) async {
        for id in ids {
            _ = try? await store.acquireLease(name(of: id), owner: id, now: now, until: now.advanced(by: memory))
        }
    }

    private static func name(of key: String) -> String { "foreign_key.\(key)" }
}
