package import Broker

extension InMemoryStore: StoreAdministration {
    package func rowCounts() async throws(StoreFailure) -> [StoredKind: Int] {
        try transaction { state in
            Dictionary(uniqueKeysWithValues: StoredKind.allCases.map { ($0, state.stored($0, at: .zero).count) })
        }
    }

    package func liveSessions(now: WallTime) async throws(StoreFailure) -> Int {
        try transaction { state in
            state.sessions.values.count { $0.endedAt == nil && now < min($0.idleExpiresAt, $0.expiresAt) }
        }
    }

    package func rows(
        of kind: StoredKind, after cursor: [UInt8]?, limit: Int
    ) async throws(StoreFailure) -> StoredPage {
        let moment = monotonic()
        return try transaction { state in
            let left = state.stored(kind, at: moment).filter { row in
                cursor.map { $0.lexicographicallyPrecedes(row.key) } ?? true
            }
            let page = left.sorted { $0.key.lexicographicallyPrecedes($1.key) }.prefix(max(limit, 1))
            return StoredPage(rows: page.map(\.row), next: page.count < max(limit, 1) ? nil : page.last?.key)
        }
    }

    package func insert(_ rows: [StoredRow]) async throws(StoreFailure) {
        let moment = monotonic()
        try transaction { state in
            for row in rows { state.insert(row, at: moment) }
        }
    }

    package func sealedRows(
        of place: SealedPlace, notUnder keyID: String, after cursor: Digest?, limit: Int
    ) async throws(StoreFailure) -> SealedPage {
        try transaction { state in
            let left = state.sealed(place).filter { row in
                cursor.map { $0.bytes.lexicographicallyPrecedes(row.key.bytes) } ?? true
            }
            let page = left.sorted { $0.key.bytes.lexicographicallyPrecedes($1.key.bytes) }.prefix(max(limit, 1))
            return SealedPage(
                rows: page.filter { $0.sealed.keyID != keyID },
                next: page.count < max(limit, 1) ? nil : page.last?.key, seen: page.count)
        }
    }

    package func reseal(_ rows: [ResealedRow]) async throws(StoreFailure) -> Int {
        try transaction { state in rows.count { state.reseal($0) } }
    }

    package func keyUse(exchangesSince: WallTime) async throws(StoreFailure) -> [String: Int] {
        try transaction { state in
            var use: [String: Int] = [:]
            for place in SealedPlace.allCases {
                for row in state.sealed(place) { use[row.sealed.keyID, default: 0] += 1 }
            }
            for row in state.exchanges.values where row.createdAt >= exchangesSince {
                use[row.keyID, default: 0] += 1
            }
            return use
        }
    }
}
