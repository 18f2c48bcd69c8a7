import Broker
import Foundation
import Testing

@testable import BrokerStore

@Suite("PostgreSQL: the rights of the broker's role", .timeLimit(.minutes(2)))
struct TableRightsTests {
    /// Runs `body` with a new role that owns no table, and with the owner's URL.
    private func withRole(
        _ body: (_ role: String, _ settings: ConnectionSettings, _ owner: String) async throws -> Void
    )
        async throws
    {
        try await PostgreSQLServer.withDatabase(isSpoilt: true) { owner, _ in
            let role = "app_\(UInt64.random(in: .min ... .max))"
            try PostgreSQLServer.execute("CREATE ROLE \(role) LOGIN", in: owner)
            let settings = try ConnectionSettings(
                url: owner.replacingOccurrences(of: "//coatcheck@", with: "//\(role)@"))
            let result: Result<Void, any Error>
            do { result = .success(try await body(role, settings, owner)) } catch { result = .failure(error) }
            try PostgreSQLServer.execute("DROP OWNED BY \(role); DROP ROLE \(role)", in: owner)
            try result.get()
        }
    }

    private func grant(_ role: String, _ owner: String) throws {
        for (table, rights) in TableRights.needed {
            try PostgreSQLServer.execute("GRANT \(rights.joined(separator: ", ")) ON \(table) TO \(role)", in: owner)
        }
    }

    @Test("The store's list of the rights that a role needs → names exactly the tables of the newest schema")
    func complete() async throws {
        try await PostgreSQLServer.withDatabase { owner, _ in
            let tables = try PostgreSQLServer.execute(
                "SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_tables WHERE schemaname = 'public'",
                in: owner)
            #expect(tables.first == TableRights.needed.map(\.table).sorted().joined(separator: " "))
        }
    }

    @Test("A role lacks a right to a table → the message names the role, the right and the table")
    func lacking() async throws {
        try await withRole { role, settings, owner in
            try grant(role, owner)
            #expect(try await PostgreSQLStore.lackingRights(settings) == nil)
            try PostgreSQLServer.execute(
                "REVOKE ALL ON audience_tokens FROM \(role); REVOKE DELETE ON sessions FROM \(role)", in: owner)
            let sentence =
                "the role \(role) lacks SELECT, INSERT, UPDATE, DELETE on audience_tokens; DELETE on sessions"
            #expect(try await PostgreSQLStore.lackingRights(settings) == sentence)
            let store = try await PostgreSQLStore.open(settings, listening: nil, connections: 4, migrating: false)
            #expect(try await store.lackingRights() == sentence)
            await store.close()
        }
    }

    @Test("The broker's role has exactly the listed rights → sign-in, log-out, presence proof and lease succeed")
    func enough() async throws {
        try await withRole { role, settings, owner in
            try grant(role, owner)
            let store = try await PostgreSQLStore.open(settings, listening: nil, connections: 4, migrating: false)
            let row = Rows.session()
            try await store.signIn(row)
            let ended = try await store.endSessions(.token(row.tokenDigest), reason: .loggedOut, now: Rows.seconds(1))
            #expect(ended.count == 1)
            #expect(try await store.takeProof(Rows.digest(), until: Rows.seconds(60)))
            #expect(try await store.acquireLease("sweeper", owner: "a", now: Rows.now, until: Rows.seconds(9)))
            #expect(try await store.session(tokenDigest: row.tokenDigest)?.endReason == .loggedOut)
            await store.close()
        }
    }
}
