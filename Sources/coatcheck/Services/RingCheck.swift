import Broker
import BrokerStore
import BrokerVault

/// The result of a test whether the key ring opens the values of a sample.
///
/// The primary keys of rows are random, so consecutive rows are a random sample.
struct RingCheck: Sendable, Equatable, CustomStringConvertible {
    private(set) var tried = 0
    private(set) var opened = 0
    /// The ids of the keys that sealed sampled values and that the ring lacks.
    private(set) var missing: Set<String> = []
    /// The number of values that do not open although the ring has their key.
    private(set) var faulty = 0
    /// The number of values that a wrong ring sealed while a broker used it for this store, and the keys of these values.
    private(set) var foreign = 0
    private(set) var foreignKeys: Set<String> = []

    /// Tests a ring on sampled values.
    ///
    /// `strangers` are the keys of wrong rings that were used for this store.
    init(_ sample: [SealedRow], _ vault: OpenSSLVault, strangers: Set<String> = []) {
        for row in sample {
            tried += 1
            do throws(VaultFailure) {
                _ = try vault.open(row.sealed, as: row.place.kind, row: row.boundTo)
                opened += 1
            } catch {
                guard case .unknownKey(let id) = error else {
                    faulty += 1
                    continue
                }
                if strangers.contains(id) {
                    foreign += 1
                    foreignKeys.insert(id)
                } else {
                    missing.insert(id)
                }
            }
        }
    }

    /// Whether the ring counts as the ring of this store, which is so if nine of ten values open.
    ///
    /// A few values may be damaged, or this process may read a new key only later, and this must not cause a refusal of all
    /// requests. Values that a wrong ring sealed are left out, because the store's own ring cannot open them.
    var isGood: Bool { (tried - foreign - opened) * 10 <= tried - foreign }

    /// Whether the ring belongs to another store: it opens no value and lacks the values' keys.
    var opensNothing: Bool { opened == 0 && !missing.isEmpty }

    var description: String {
        if tried == 0 { return "the store has no sealed rows, so the key ring could not be checked" }
        if opened == tried { return "the key ring opens the store's rows (\(tried) tried)" }
        var text = "the key ring opens \(opened) of \(tried) rows tried"
        if !missing.isEmpty { text += "; missing keys: \(missing.sorted().joined(separator: ", "))" }
        if faulty > 0 {
            text += "; \(faulty) have a known key id but do not open (another key with this id, or damaged)"
        }
        if foreign > 0 {
            text +=
                "; \(foreign) were sealed while another ring stood in its place "
                + "(\(foreignKeys.sorted().joined(separator: ", "))): their users have to sign in again"
        }
        return text
    }

    /// The number of values that are sampled from each sealed column.
    private static let sampled = 20

    /// Tests a ring on a sample of a store's values.
    static func run(_ store: any AdministeredStore, _ vault: OpenSSLVault) async throws(StoreFailure) -> RingCheck {
        let sample = try await sample(of: store, vault)
        let check = RingCheck(sample, vault)
        guard !check.missing.isEmpty else { return check }
        return RingCheck(sample, vault, strangers: await ForeignKeys.known(among: check.missing, store))
    }

    /// Samples a store's values, beginning at a random primary key.
    static func sample(
        of store: any StoreAdministration, _ vault: OpenSSLVault
    ) async throws(StoreFailure) -> [SealedRow] {
        var sample: [SealedRow] = []
        for place in SealedPlace.allCases {
            let start = (try? vault.random(32)).flatMap { Digest($0) }
            var rows = try await store.sealedRows(of: place, notUnder: "", after: start, limit: sampled).rows
            if rows.count < sampled {
                let first = try await store.sealedRows(of: place, notUnder: "", after: nil, limit: sampled).rows
                rows += first.filter { !rows.contains($0) }.prefix(sampled - rows.count)
            }
            sample += rows
        }
        return sample
    }
}

/// The keys of wrong rings that brokers have used for this store.
///
/// The store remembers each key as a lease that is never renewed (decision 54).
enum ForeignKeys {
    /// The duration of the leases that record foreign keys.
    ///
    /// It is longer than the lifetime of any row that such a key has sealed.
    private static let memory = Duration.seconds(10 * 365 * 86_400)

    /// Returns those of `ids` that the store remembers as keys of wrong rings.
    static func known(among ids: Set<String>, _ store: any BrokerStore) async -> Set<String> {
        var known: Set<String> = []
        for id in ids where (try? await store.lease(name(of: id))) != nil { known.insert(id) }
        return known
    }

    /// Stores keys of a wrong ring.
    ///
    /// If the store fails, only this process remembers the keys.
    static func note(_ ids: Set<String>, at now: WallTime, _ store: any BrokerStore) async {
        for id in ids {
            _ = try? await store.acquireLease(name(of: id), owner: id, now: now, until: now.advanced(by: memory))
        }
    }

    private static func name(of key: String) -> String { "foreign_key.\(key)" }
}
