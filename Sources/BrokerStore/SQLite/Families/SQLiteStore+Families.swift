package import Broker
import GRDB

extension SQLiteStore {
    package func children(of parents: [Digest], now: WallTime) async throws(StoreFailure) -> [SessionRow] {
        guard !parents.isEmpty else { return [] }
        let pending = endings.snapshot()
        let rows = try await readers.read { database in
            try parents.flatMap { parent in
                try database.rows(FamilySQL.children, ["parent": parent.sql, "now": now.sql]) { try? SessionRow(&$0) }
            }
        }
        return rows.compactMap { $0 }.filter { pending.applied(to: $0).endedAt == nil }
    }

    package func insertChild(_ row: SessionRow, places: Int) async throws(StoreFailure) -> ChildInsertion {
        guard let lineage = row.lineage, endings.ending(lineage.parent) == nil else { return .parentEnded }
        let note = noting(.replaced, row.createdAt)
        return try await writer.write(committed: { if case .made(let replaced) = $0 { note(replaced) } }) { database in
            let now = row.createdAt
            let parent: Named = ["token": lineage.parent.sql, "now": now.sql]
            guard try database.first(FamilySQL.parent, parent, { _ in true }) == true else {
                return .parentEnded
            }
            if try database.first(SessionSQL.exists, ["token": row.tokenDigest.sql], { _ in true }) == true {
                return .made(replaced: [])
            }
            let place: Named = ["parent": lineage.parent.sql, "place": lineage.place.sql]
            let others = try database.first(FamilySQL.otherPlaces, place + ["now": now.sql]) { try $0.small() } ?? 0
            guard others < places else { return .full }
            let before = try database.rows(FamilySQL.inPlace, place, NamedSession.init)
            let replaced = try before.filter { try database.end($0, .replaced, now) }
            try database.change(SessionSQL.insert, row.values)
            return .made(replaced: replaced.compactMap { $0.tokenDigest })
        }
    }
}
