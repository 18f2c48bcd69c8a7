package import Broker

extension PostgreSQLStore {
    package func children(of parents: [Digest], now: WallTime) async throws(StoreFailure) -> [SessionRow] {
        guard !parents.isEmpty else { return [] }
        let values: Named<Parameter> = ["parents": .digests(parents), "now": .time(now)]
        return try await scan(PostgreSQLFamilySQL.children, values) { rows in
            rows.map { try? SessionRow(&$0) }.compactMap { $0 }
        }
    }

    package func insertChild(_ row: SessionRow, places: Int) async throws(StoreFailure) -> ChildInsertion {
        guard let lineage = row.lineage else { return .parentEnded }
        let values = row.parameters + Lineage.parameters(lineage) + ["other_places": .integer(places)]
        let inserted = try await run(
            lanes.writes,
            [
                BoundStatement(PostgreSQLFamilySQL.lockParent, ["token": .digest(lineage.parent)]),
                BoundStatement(PostgreSQLFamilySQL.insertChild, values),
            ], isWrite: true
        ) { rows -> ChildInsertion in
            var replaced: [Digest] = []
            var found = (parent: false, room: false)
            for row in try rows.map({ (try $0.truth(), try $0.truth(), try $0.optionalDigest()) }) {
                found = (row.0, row.1)
                if let token = row.2 { replaced.append(token) }
            }
            return !found.parent ? .parentEnded : found.room ? .made(replaced: replaced) : .full
        }
        if case .made(let replaced) = inserted { endings?.tell(replaced, .replaced) }
        return inserted
    }
}
