import Broker
import GRDB
import Testing

@testable import BrokerStore

/// The plans that SQLite makes for an operator's lists.
@Suite("SQLite: the plans of lists", .timeLimit(.minutes(1)))
struct SQLitePlanTests {
    @Test(
        "A list of many users' sessions → read in the order of an index with the list's filter",
        arguments: SessionState.allCases)
    func lists(_ state: SessionState) async throws {
        try await TemporaryStore.with { store, _ in
            let digest = Rows.digest()
            for selector in [SessionSelector.provider(digest), .client(digest), .all] {
                for isAfter in [false, true] {
                    let sql = SessionSQL.page(selector, state, after: isAfter)
                    let plan = try await store.scans.read { database in
                        let values = sql.names.map { _ in DatabaseValue.null }
                        return try Row.fetchAll(
                            database, sql: "EXPLAIN QUERY PLAN " + sql.text, arguments: StatementArguments(values)
                        )
                        .map { String.fromDatabaseValue($0["detail"]) ?? "" }
                    }
                    let column =
                        switch selector {
                        case .provider: "provider"
                        case .client: "client"
                        default: ""
                        }
                    let isFound =
                        plan.count == 1 && plan[0].contains("USING INDEX")
                        && (column.isEmpty || plan[0].contains("(\(column)=?"))
                    #expect(isFound, "\(selector), \(state), \(isAfter): \(plan)")
                }
            }
        }
    }
}
