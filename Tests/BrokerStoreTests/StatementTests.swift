import Broker
import GRDB
import Testing

@testable import BrokerStore

/// The named parameters of statements, and the values for them.
@Suite("Statements: named parameters")
struct StatementTests {
    private static let update = Statement(
        "update", ["token": .bytes, "now": .integer],
        "UPDATE t SET at = :now, before = :now::text, note = ':no ''parameter' WHERE token = :token")

    @Test("An undeclared name in the text → a fault, and the store refuses to run the statement")
    func undeclared() {
        let statement = Statement("s", ["token": .bytes], "SELECT 1 WHERE a = :token AND b = :now")
        #expect(statement.fault == .undeclared("now"))
        #expect(throws: StoreFailure.unavailable("statement s: undeclared(\"now\")")) {
            try BoundStatement(statement, ["token": .bytes([1]), "now": .integer(1)])
        }
    }

    @Test("A declared name that the text lacks → a fault")
    func unused() {
        let statement = Statement("s", ["token": .bytes, "now": .integer], "SELECT 1 WHERE a = :token")
        #expect(statement.fault == .unused("now"))
    }

    @Test("A name that is declared twice → a fault")
    func declaredTwice() {
        let parameters: Named<ParameterType> = ["token": .bytes]
        #expect(Statement("s", parameters + parameters, "SELECT :token").fault == .repeated("token"))
    }

    @Test(
        "A value is missing, surplus, given twice or of a wrong type → an error with its name",
        arguments: [
            (["token": .bytes([1])], "missing(\"now\")"),
            ([:], "missing(\"token\")"),
            (["token": .bytes([1]), "now": .integer(1), "then": .integer(2)], "surplus(\"then\")"),
            (["token": .bytes([1]), "then": .integer(1)], "missing(\"now\")"),
            (["token": .bytes([1]), "now": .integer(1)] + ["token": .bytes([2])], "repeated(\"token\")"),
            (["token": .bytes([1]), "now": .text("1")], "wrongType(\"now\")"),
            (["token": .integer(1), "now": .bytes([1])], "wrongType(\"token\")"),
            (["token": .bytes(nil), "now": .text(nil)], "wrongType(\"now\")"),
        ] as [(Named<Parameter>, String)])
    func wrongValues(_ values: Named<Parameter>, _ fault: String) {
        #expect(throws: StoreFailure.unavailable("statement update: \(fault)")) {
            try BoundStatement(Self.update, values)
        }
    }

    @Test("Values in another order → bound to the parameters with their names")
    func order() throws {
        let bound = try BoundStatement(Self.update, ["now": .integer(5), "token": .bytes([1])])
        #expect(bound.values.elements == [.bytes([1]), .integer(5)])
        #expect(bound.values.names == ["token", "now"])
    }

    @Test("Names in the text → PostgreSQL's numbers in the declared order; casts and quoted colons stay")
    func numbers() {
        #expect(Self.update.fault == nil)
        #expect(
            Self.update.sql
                == "UPDATE t SET at = $2, before = $2::text, note = ':no ''parameter' WHERE token = $1")
    }

    @Test("Every statement of PostgreSQL → its text has the declared parameters")
    func postgreSQL() {
        for statement in PostgreSQLPlanTests.statements {
            #expect(statement.fault == nil, "\(statement.name)")
            #expect(
                !statement.sql.contains(#/(^|[^:]):[a-z]/#), "\(statement.name)")
        }
    }

    @Test("A value for SQLite is missing or surplus → an error with its name")
    func sqlite() async throws {
        try await TemporaryStore.with { store, _ in
            let wrong: [(Named<DatabaseValue>, StatementFault)] = [
                ([:], .missing("name")), (["name": "a".databaseValue, "owner": .null], .surplus("owner")),
                (["names": "a".databaseValue], .missing("name")),
                (["name": "a".databaseValue] + ["name": "b".databaseValue], .repeated("name")),
            ]
            for (values, fault) in wrong {
                await #expect(throws: StoreFailure.unavailable("statement: \(fault)")) {
                    try await store.readers.read { database in
                        try database.first(UpkeepSQL.lease, values) { try $0.time() }
                    }
                }
            }
        }
    }

    @Test("SQLite's own numbers of the parameters → in the order of the names")
    func numbersOfSQLite() async throws {
        let sql = NamedSQL("SELECT :second, :first, :second || ':none', x'00' WHERE 1 = :third")
        #expect(sql.names == ["second", "first", "third"])
        try await TemporaryStore.with { store, _ in
            let row = try await store.readers.read { database in
                try database.first(
                    sql, ["first": "a".databaseValue, "third": 1.databaseValue, "second": "b".databaseValue]
                ) { [try $0.text(), try $0.text(), try $0.text()] }
            }
            #expect(row == ["b", "a", "b:none"])
        }
    }
}
