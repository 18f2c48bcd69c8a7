import Broker

/// A store with one forged row.
///
/// An attacker has changed two things in the row of a session: its parent and place, and its sealed facts.
final class RelatedStore: AroundStore {
    let base: any BrokerStore
    private let tokenDigest: Digest
    private let lineage: Lineage
    private let facts: Sealed?

    init(_ base: any BrokerStore, _ tokenDigest: Digest, _ lineage: Lineage, _ facts: Sealed? = nil) {
        self.base = base
        self.tokenDigest = tokenDigest
        self.lineage = lineage
        self.facts = facts
    }

    func around<Value: Sendable>(
        _ operation: StoreOperation, _ work: @escaping StoreWork<Value>
    ) async throws(StoreFailure) -> Value {
        try await work(base)
    }

    func session(tokenDigest: Digest) async throws(StoreFailure) -> SessionRow? {
        var row = try await base.session(tokenDigest: tokenDigest)
        guard tokenDigest == self.tokenDigest else { return row }
        row?.lineage = lineage
        if let facts { row?.facts = facts }
        return row
    }
}
