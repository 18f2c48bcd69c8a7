import BrokerTestSupport
import BrokerVault
import Foundation
import Testing

@testable import Broker

/// A key that leaves lines open, so that tests can read them.
struct OpenKey: ExportSealing {
    let name = "canary-key"
    func seal(_ plaintext: [UInt8]) throws(ExportKeyFailure) -> String { String(decoding: plaintext, as: UTF8.self) }
}

@Suite("Sessions are exported for another system", .timeLimit(.minutes(2)))
struct SessionExportTests {
    private func order(_ filter: AdminSessions.Filter = .init(), keeps: Bool = false) -> SessionExport.Order {
        SessionExport.Order(filter, key: OpenKey(), actor: "olga", keeps: keeps)
    }

    private func row(_ broker: TestBroker, _ signedIn: SignedIn) async throws -> SessionRow {
        try #require(try await broker.store.session(tokenDigest: broker.vault.digest(signedIn.token)))
    }

    private func audits(_ broker: TestBroker) throws -> [AuditRow] {
        try #require(broker.store as? InMemoryStore).auditRecords
    }

    // MARK: Refusals

    @Test("An export of an unknown provider, or of a client alone → refused before the audit record")
    func unknown() async throws {
        let broker = try TestBroker()
        let export = broker.useCases.adminSessions.export
        let unknown = AdminSessions.Filter(provider: ProviderName(unchecked: "other"))
        #expect(await problem { try await export.page(order(unknown), cursor: nil) }?.code == .providerNotFound)
        let client = AdminSessions.Filter(client: ClientName(unchecked: "ios"))
        #expect(await problem { try await export.page(order(client), cursor: nil) }?.code == .invalidRequest)
        #expect(await problem { try await export.page(order(), cursor: "x") }?.code == .invalidRequest)
        #expect(try audits(broker).isEmpty)
    }

    @Test("Another process has the refresh claim → the session is missed, and lives on")
    func busy() async throws {
        let broker = try TestBroker()
        let row = try await row(broker, broker.signIn())
        _ = try await broker.store.claimRefresh(
            RefreshClaim(
                tokenDigest: row.tokenDigest, tokenVersion: 1, name: ClaimID(random: [1]), lifetime: .seconds(25),
                now: broker.clock.now))
        let page = try await broker.useCases.adminSessions.export.page(order(), cursor: nil)
        #expect(page == SessionExport.Page(missed: [SessionExport.Missed(handle: row.handle, reason: .busy)]))
        broker.clock.advance(.seconds(86))
        let again = try await broker.useCases.adminSessions.export.page(order(), of: [row.handle])
        #expect(again.lines.map(\.receipt.handle) == [row.handle] && again.missed.isEmpty)
    }

    @Test("The subject of the last refresh is unchecked, or the row's key is missing → the session is missed")
    func unusable() async throws {
        let broker = try TestBroker()
        var row = try await row(broker, broker.signIn())
        let memory = try #require(broker.store as? InMemoryStore)
        row.subjectUnchecked = true
        memory.replace(row)
        let export = broker.useCases.adminSessions.export
        #expect(try await export.page(order(), cursor: nil).missed.map(\.reason) == [.unchecked])
        row.subjectUnchecked = false
        row.tokens = Sealed(keyID: "kmissing", envelope: [1])
        memory.replace(row)
        #expect(try await export.page(order(), cursor: nil).missed.map(\.reason) == [.unreadable])
        #expect(try await broker.store.refreshState(row.tokenDigest)?.claimRest == nil)
    }

    @Test(
        "The user logs out between the line and the end → the session is kept with its reason, and its tokens are revoked"
    )
    func logOut() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.signIn()
        let export = broker.useCases.adminSessions.export
        let page = try await export.page(order(), cursor: nil)
        try await broker.useCases.endSession.logOut(signedIn.token)
        #expect(try await export.end(page.lines.map(\.receipt), actor: "olga").isEmpty)
        #expect(try await row(broker, signedIn).endReason == .loggedOut)
        #expect(try await broker.store.outboxCount() == 1)
        #expect(try await export.page(order(), of: page.lines.map(\.receipt.handle)) == SessionExport.Page())
    }

    @Test(
        "A late refresh is committed between the line and the end → the session is kept, and the next line has its new tokens"
    )
    func refreshed() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.signIn()
        let export = broker.useCases.adminSessions.export
        let first = try await export.page(order(), cursor: nil)
        let row = try await row(broker, signedIn)
        let tokens = try #require(row.tokens)
        let opened = try broker.vault.open(tokens, as: .tokens, row: row.tokenDigest)
        var stored = try StoredTokens(record: opened)
        stored.tokens.refreshToken = Secret("canary-newer")
        let committed = try await broker.store.commitRefresh(
            RefreshCommit(
                tokenDigest: row.tokenDigest, tokenVersion: 1,
                tokens: broker.vault.seal(stored.record, as: .tokens, row: row.tokenDigest), facts: nil,
                tokenExpiresAt: nil, refreshable: true, expiresAt: nil))
        #expect(committed == .committed)
        #expect(try await export.end(first.lines.map(\.receipt), actor: "olga").isEmpty)
        let second = try await export.page(order(), of: [row.handle])
        #expect(second.lines.first?.text.contains("canary-newer") == true)
        #expect(try await export.end(second.lines.map(\.receipt), actor: "olga") == [row.handle])
    }

    // MARK: Exports

    @Test("An export → the session ends with the reason `admin`, is announced, and its tokens stay valid")
    func ends() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.signIn()
        _ = try await broker.useCases.resumeSession.resume(signedIn.token)
        let export = broker.useCases.adminSessions.export
        let page = try await export.page(order(), cursor: nil)
        let receipts = page.lines.map(\.receipt)
        #expect(try await export.end(receipts, actor: "olga") == receipts.map(\.handle))
        // A repeated call, whose first answer was lost, gets the same answer.
        #expect(try await export.end(receipts, actor: "olga") == receipts.map(\.handle))
        #expect(try await row(broker, signedIn).endReason?.shown == .admin)
        #expect(try await broker.store.outboxCount() == 0)
        let resumed = await problem { try await broker.useCases.resumeSession.resume(signedIn.token) }
        #expect(resumed?.code == .sessionEnded)
        let ended = broker.events.all.filter {
            if case .sessionEnded(.admin, 1, .some) = $0 { true } else { false }
        }
        #expect(ended.count == 1)
        #expect(
            try audits(broker).map { [$0.actor, $0.action, $0.target] } == [
                ["olga", "export_sessions", "all to canary-key"], ["olga", "end_exported", "1 sessions"],
                ["olga", "end_exported", "1 sessions"],
            ])
    }

    @Test("An export that keeps the sessions → lines that lack the tokens, and zero claims")
    func keeps() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.signIn()
        let page = try await broker.useCases.adminSessions.export.page(order(keeps: true), cursor: nil)
        let line = try #require(page.lines.first)
        let session = try ExportedSession(json: Array(line.text.utf8))
        #expect(session.accessToken == nil && session.refreshToken == nil)
        #expect(try await broker.store.refreshState(row(broker, signedIn).tokenDigest)?.claimRest == nil)
    }

    @Test("More sessions than a page has → pages with a cursor, and each session once")
    func pages() async throws {
        var settings = BrokerSettings()
        settings.sessionsPerSubjectAndClient = 2 * SessionExport.pageSize
        let broker = try TestBroker(settings: settings)
        for number in 0..<(SessionExport.pageSize + 7) {
            broker.clock.advance(.seconds(1))
            _ = try await broker.signIn(code: "code-\(number)")
        }
        let export = broker.useCases.adminSessions.export
        var handles: [SessionHandle] = []
        var cursor: String?
        var pages = 0
        repeat {
            let page = try await export.page(order(), cursor: cursor)
            handles += page.lines.map(\.receipt.handle)
            cursor = page.nextCursor
            pages += 1
        } while cursor != nil
        #expect(pages == 2 && Set(handles).count == SessionExport.pageSize + 7)
        #expect(handles.count == SessionExport.pageSize + 7)
    }

    // MARK: Imports

    @Test("An exported session is imported into another store → it is the same session, with the same tokens")
    func moved() async throws {
        let first = try TestBroker(script: .init(sid: "sid-1"))
        let signedIn = try await first.signIn()
        let page = try await first.useCases.adminSessions.export.page(order(), cursor: nil)
        let session = try ExportedSession(json: Array(try #require(page.lines.first).text.utf8))
        let second = try TestBroker(clock: first.clock)
        let work = SessionImport(second.context, try #require(second.store as? InMemoryStore))
        #expect(try await work.take([session, session]) == [nil, .exists])
        #expect(try await work.take([session]) == [.exists])
        let (before, after) = (try await row(first, signedIn), try await row(second, signedIn))
        #expect(after.handle == before.handle && after.expiresAt.seconds == before.expiresAt.seconds)
        #expect(after.refreshable && after.subject != before.subject)
        #expect(after.subject == second.vault.index(.subject, ["https://as.example", session.subject]))
        #expect((after.sid != nil) == (session.sid != nil))
        let (old, new) = try (tokens(before, first), tokens(after, second))
        #expect(old.tokens.refreshToken?.reveal() == new.tokens.refreshToken?.reveal())
        #expect(old.tokens.accessToken.reveal() == new.tokens.accessToken.reveal())
        #expect(try await second.useCases.resumeSession.resume(signedIn.token).facts.subject == session.subject)
    }

    private func tokens(_ row: SessionRow, _ broker: TestBroker) throws -> StoredTokens {
        try StoredTokens(
            record: broker.vault.open(try #require(row.tokens), as: .tokens, row: row.tokenDigest))
    }

    @Test("A line with a token that is bound to the broker's key → the key moves along")
    func proofKey() async throws {
        let broker = try TestBroker()
        let signedIn = try await broker.signIn()
        let row = try await row(broker, signedIn)
        let facts = try SessionFacts.open(row, broker.vault)
        var stored = try tokens(row, broker)
        let pair = try broker.vault.proofKeyPair(seed: Array(repeating: 7, count: 32))
        stored.tokens.key = TokenKey(pair: pair)
        stored.tokens.credential = .dpop
        let session = try ExportedSession(json: ExportedSession(row, facts, stored, sid: nil).json)
        #expect(session.proofKey?.publicKey == pair.publicKey && session.accessToken != nil)
        #expect(session.proofKey?.scalar.reveal() == pair.scalar.reveal())
        let second = try TestBroker(clock: broker.clock)
        let memory = try #require(second.store as? InMemoryStore)
        #expect(try await SessionImport(second.context, memory).take([session]) == [nil])
        let imported = try await tokens(self.row(second, signedIn), second).tokens
        #expect(imported.key?.pair.scalar.reveal() == pair.scalar.reveal() && imported.credential == .dpop)
        #expect(imported.key?.usesNonces == true)
        // An access token for a client certificate stays behind, because another broker shows another one.
        stored.tokens.key = nil
        stored.tokens.credential = .mtls
        #expect(ExportedSession(row, facts, stored, sid: nil).accessToken == nil)
    }

    @Test(
        "A session that has expired, or whose provider or client the configuration lacks → refused",
        arguments: ["expired", "idle", "provider", "client"])
    func refused(_ change: String) async throws {
        let broker = try TestBroker()
        let row = try await row(broker, broker.signIn())
        var session = ExportedSession(row, try SessionFacts.open(row, broker.vault), nil, sid: nil)
        let other = try TestBroker(clock: broker.clock)
        switch change {
        case "expired": session.expiresAt = broker.clock.now
        case "idle": session.idleExpiresAt = broker.clock.now
        case "provider": session.provider = ProviderName(unchecked: "other")
        default: session.client = ClientName(unchecked: "other")
        }
        let memory = try #require(other.store as? InMemoryStore)
        let refusal = try await SessionImport(other.context, memory).take([session])
        let expected: SessionImport.Refusal =
            switch change {
            case "provider": .provider
            case "client": .client
            default: .expired
            }
        #expect(refusal == [expected])
        #expect(try await other.store.session(tokenDigest: session.tokenDigest) == nil)
    }

    @Test(
        "A line of a newer version, or with a faulty member → refused, with the member's name",
        arguments: [
            (#""v":1"#, #""v":2"#, ExportedSession.Fault.newer(version: 2)), (#""v":1"#, #""v":0"#, .member("v")),
            (#""v":1"#, #""w":1"#, .member("v")), (#""provider":"as""#, #""provider":"A S""#, .member("provider")),
            (#""scope":["#, #""scope":[7],"x":["#, .member("scope")),
            (#""session":""#, #""session":"="#, .member("session")),
            (#""handle":"ses_"#, #""handle":"sess"#, .member("handle")),
            (#""created_at":"2"#, #""created_at":"9z"#, .member("created_at")),
            (#""subject":""#, #""subject":null,"x":""#, .member("subject")), (#"{"v""#, #"["v""#, .member("")),
        ])
    func malformed(_ old: String, _ new: String, _ fault: ExportedSession.Fault) async throws {
        let broker = try TestBroker()
        _ = try await broker.signIn()
        let page = try await broker.useCases.adminSessions.export.page(order(), cursor: nil)
        let line = try #require(page.lines.first).text
        let range = try #require(line.range(of: old))
        #expect(throws: fault) {
            try ExportedSession(json: Array(line.replacingCharacters(in: range, with: new).utf8))
        }
    }
}
