import Broker
import BrokerStore
import BrokerVault

/// How much of what a store holds the key ring opens, by a sample: rows' keys are random, so any of them are.
struct RingCheck: Sendable, Equatable, CustomStringConvertible {
    private(set) var tried = 0
    private(set) var opened = 0
    /// The keys that rows name and the ring does not have.
    private(set) var missing: Set<String> = []
    /// How many have their key in the ring and do not open all the same.
    private(set) var faulty = 0

    /// Tries a ring on some values.
    init(_ sample: [SealedRow], _ vault: OpenSSLVault) {
        for row in sample {
            tried += 1
            do throws(VaultFailure) {
                _ = try vault.open(row.sealed, as: row.place.kind, row: row.boundTo)
                opened += 1
            } catch {
                if case .unknownKey(let id) = error { missing.insert(id) } else { faulty += 1 }
            }
        }
    }

    /// Whether the ring is the store's: of ten values nine open at least.
    ///
    /// A few that do not are somebody's doing, or of a key that is being looked for, and no reason to turn everybody away.
    var isGood: Bool { (tried - opened) * 10 <= tried }

    var description: String {
        if tried == 0 { return "nothing is stored that a ring could be tried on" }
        if opened == tried { return "the key ring opens the store's rows (\(tried) tried)" }
        var text = "the key ring opens \(opened) of \(tried) rows tried"
        if !missing.isEmpty { text += "; not in it: \(missing.sorted().joined(separator: ", "))" }
        if faulty > 0 { text += "; \(faulty) are sealed with another key of a known id, or damaged" }
        return text
    }

    /// How many values of each place are tried.
    private static let sampled = 20

    /// Tries a ring on a store, from a random place on.
    static func run(_ store: any StoreAdministration, _ vault: OpenSSLVault) async throws(StoreFailure) -> RingCheck {
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
        return RingCheck(sample, vault)
    }
}
