import Broker
import Foundation
import GRDB
import Testing

@testable import BrokerStore

/// Backups of older programs, made from a small database for each released schema.
@Suite("SQLite: backups of each released schema", .timeLimit(.minutes(2)))
struct OlderBackupTests {
    /// The number of sealed values in a database that `backup` makes.
    ///
    /// Each of the two sessions has two sealed values. The login, the registration and the outbox row have one sealed value
    /// each.
    private static let sealed = 7

    /// Makes a backup of a schema with two living sessions and returns their digests.
    private func backup(of version: Int, at path: String) throws -> [Digest] {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        let tokens = [Rows.digest(), Rows.digest()]
        try queue.write { database in
            try database.execute(sql: "PRAGMA application_id = \(Schema.applicationID); \(Schema.versionTable)")
            for migration in Schema.migrations where migration.version <= version {
                try database.execute(sql: migration.sql)
                try database.execute(
                    sql: "INSERT INTO schema_version (version, readable_from) VALUES (?, ?)",
                    arguments: [migration.version, migration.readableFrom])
            }
            // Use only the columns of the first schema, because all later schemas have them, too.
            for token in tokens {
                try database.execute(
                    sql: """
                        INSERT INTO sessions (token, handle, subject, subject_and_client, provider, client, created_at,
                            last_used_at, idle_expires_at, expires_at, token_expires_at, refreshable, token_version, fence,
                            facts_key, facts, tokens_key, tokens)
                        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1, 0, 'k1', x'01', 'k1', x'02')
                        """,
                    arguments: [
                        token.sql, Rows.handle().text, Rows.digest().sql, Rows.digest().sql, Rows.digest().sql,
                        Rows.digest().sql, Rows.now.sql, Rows.now.sql, Rows.seconds(3600).sql, Rows.seconds(7200).sql,
                        Rows.seconds(600).sql,
                    ])
            }
            try database.execute(
                sql: """
                    INSERT INTO logins (state, login_token, login_id, created_at, expires_at, status, sealed_key, sealed)
                    VALUES (?, ?, 'lgn_1', ?, ?, 0, 'k1', x'03')
                    """,
                arguments: [Rows.digest().sql, Rows.digest().sql, Rows.now.sql, Rows.seconds(600).sql])
            try database.execute(
                sql: """
                    INSERT INTO registrations (key, created_at, expires_at, status, attempts, sealed_key, sealed)
                    VALUES (?, ?, ?, 0, 0, 'k1', x'04')
                    """, arguments: [Rows.digest().sql, Rows.now.sql, Rows.seconds(900).sql])
            try database.execute(
                sql: """
                    INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
                    VALUES (?, ?, 'k1', x'05', ?, ?, 0)
                    """,
                arguments: [Rows.digest().sql, Rows.digest().sql, Rows.now.sql, Rows.now.sql])
        }
        return tokens
    }

    @Test(
        "A backup of each released schema → restored, and its sessions live",
        arguments: Schema.migrations.map(\.version))
    func restored(version: Int) async throws {
        try await TemporaryStore.withDirectory { directory in
            let (path, copy) = (directory + "/data/coatcheck.db", directory + "/copy.db")
            let tokens = try backup(of: version, at: copy)
            let restored = try await SQLiteStore.restore(BackupFile(copy), to: path, stamp: "1") { copy, _ in
                #expect(copy.schema == version && copy.sessions == 2 && copy.lastMoment == Rows.now)
                #expect(copy.sample.count == Self.sealed)
            }
            #expect(restored.copy.schema == version)
            let store = try await SQLiteStore.open(path: path, reserve: 0)
            for token in tokens {
                let row = try #require(try await store.session(tokenDigest: token))
                #expect(row.endedAt == nil && row.tokens?.keyID == "k1" && row.presence == nil)
            }
            await store.close()
        }
    }

    @Test(
        "A backup of each released schema, with an endings file → restored, and a session that ended since then is ended",
        arguments: Schema.migrations.map(\.version))
    func endedSince(version: Int) async throws {
        try await TemporaryStore.withDirectory { directory in
            let (path, copy) = (directory + "/data/coatcheck.db", directory + "/copy.db")
            let tokens = try backup(of: version, at: copy)
            let place = EndingsPlace(path: directory + "/endings", longestLifetime: .seconds(7200), now: Rows.now)
            do {
                let file = try EndingsFile(place, step: { _ in }, each: { _ in })
                try file.append([EndingEntry(tokenDigest: tokens[0], at: Rows.seconds(20), reason: .loggedOut)])
            }
            let restored = try await SQLiteStore.restore(
                BackupFile(copy), to: path, stamp: "1", endings: place.path, accept: { _, _ in })
            #expect(restored.ended == 1)
            let store = try await SQLiteStore.open(path: path, reserve: 0)
            #expect(try await store.session(tokenDigest: tokens[0])?.endReason == .loggedOut)
            #expect(try await store.session(tokenDigest: tokens[1])?.endedAt == nil)
            #expect(try await store.outboxCount() == 2)
            await store.close()
        }
    }
}
