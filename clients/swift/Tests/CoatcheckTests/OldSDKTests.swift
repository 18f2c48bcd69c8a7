import Foundation
import Testing

@testable import Coatcheck

/// The old SDK is AppAuth, and `record` is the app's own code that keeps the archived state in the keychain.
private actor AppAuthMove: OldSDK {
    let record: StateRecord
    let marks: any MarkStorage
    private var state: OIDAuthState?
    private var running = 0

    init(record: StateRecord, marks: any MarkStorage) throws {
        (self.record, self.marks) = (record, marks)
        state = try record.read()
    }

    /// The only function of the app that may refresh.
    func accessToken() async throws -> String? {
        running += 1  // first announce the refresh, then look for the mark
        defer { running -= 1 }
        guard let state else { return nil }
        guard !marks.isMoving else { return state.lastTokenResponse?.accessToken }
        let token: String? = try await withCheckedThrowingContinuation { continuation in
            state.performAction { token, _, error in
                if let error { continuation.resume(throwing: error) } else { continuation.resume(returning: token) }
            }
        }
        try record.write(state)  // stores the new refresh token
        return token
    }

    func refreshEnded() async {
        while running > 0, !Task.isCancelled { try? await Task.sleep(for: .milliseconds(50)) }
    }

    func tokens() throws -> OldTokens? {
        guard let state, let refreshToken = state.refreshToken else { return nil }
        return OldTokens(refreshToken: refreshToken, idToken: state.lastTokenResponse?.idToken)
    }

    func erase() throws {
        try record.delete()  // SecItemDelete, which may report a missing item
        state = nil  // the object still has the refresh token
    }
}

/// The old SDK is Auth0's, with its `CredentialsManager` and its default keychain.
private actor Auth0Move: OldSDK {
    let manager: CredentialsManager
    let keychain: SimpleKeychain
    let marks: any MarkStorage
    private var running = 0

    init(manager: CredentialsManager, keychain: SimpleKeychain, marks: any MarkStorage) {
        (self.manager, self.keychain, self.marks) = (manager, keychain, marks)
    }

    /// The only function of the app that may refresh.
    func accessToken() async throws -> String? {
        running += 1  // first announce the refresh, then look for the mark
        defer { running -= 1 }
        guard !marks.isMoving else { return try stored()?.accessToken }
        return try await manager.credentials().accessToken
    }

    func refreshEnded() async {
        while running > 0, !Task.isCancelled { try? await Task.sleep(for: .milliseconds(50)) }
    }

    /// Reads the SDK's record, because `credentials()` would renew an expired access token.
    private func stored() throws -> Auth0.Credentials? {
        guard try keychain.hasItem(forKey: "credentials") else { return nil }
        let data = try keychain.data(forKey: "credentials")
        return try NSKeyedUnarchiver.unarchivedObject(ofClass: Auth0.Credentials.self, from: data)
    }

    func tokens() throws -> OldTokens? {
        guard let kept = try stored(), let refreshToken = kept.refreshToken else { return nil }
        return OldTokens(refreshToken: refreshToken, idToken: kept.idToken)
    }

    func erase() throws {
        // clear() only deletes, and throws if the record is missing. A call of revoke() would end the grant.
        if try keychain.hasItem(forKey: "credentials") { try manager.clear() }
    }
}

/// The start of the app.
private struct Start {
    let broker: URL
    let storage: any CredentialStorage
    let browser: any SignInBrowser
    let old: any OldSDK
    let marks: any MarkStorage
    let isMoveOn: Bool

    static func file(in group: URL) -> FileMarkStorage {
        let marks = FileMarkStorage(group.appendingPathComponent("coatcheck-move-in"))
        return marks
    }

    func begin() async throws {
        let coatcheck = Coatcheck(broker: broker, client: "ios", storage: storage, browser: browser)
        var outcome = try await coatcheck.resumeMoveIn(from: old, provider: "oidc", marks: marks)
        if outcome == nil, isMoveOn { outcome = try await coatcheck.moveIn(from: old, provider: "oidc", marks: marks) }
        switch outcome {
        case .moved(let session): show(session)  // from now on, call the broker
        case .signIn: _ = try await coatcheck.signIn(with: "oidc")
        case .later: break  // use the old access token; resume at the next start
        case .notNow, nil: break  // go on as before; try again at the next start
        }
    }

    func signOut() async throws {
        try await old.erase()
        try marks.remove()
    }

    private func show(_ session: Session?) {}
}

@Suite("The documents' code for old SDKs", .timeLimit(.minutes(1)))
struct OldSDKTests {
    /// A mark in memory.
    private final class MemoryMarks: MarkStorage, @unchecked Sendable {
        var mark: MoveInMark?
        func read() throws -> MoveInMark? { mark }
        func change(_ work: (MoveInMark?) -> MoveInMark?) throws -> MoveInMark? {
            mark = work(mark)
            return mark
        }
    }

    @Test("AppAuth with a mark → only the old access token, and a full erasure")
    func appAuth() async throws {
        let (marks, state) = (MemoryMarks(), OIDAuthState(refreshToken: "refresh", accessToken: "old"))
        let record = StateRecord(state)
        let old = try AppAuthMove(record: record, marks: marks)
        #expect(try await old.accessToken() == "fresh" && state.refreshes == 1)
        marks.mark = MoveInMark()
        #expect(try await old.accessToken() == "old" && state.refreshes == 1)
        await old.refreshEnded()
        #expect(try await old.tokens() == OldTokens(refreshToken: "refresh", idToken: "id"))
        try await old.erase()
        try await old.erase()
        #expect(try await old.tokens() == nil && record.state == nil)
    }

    @Test("Auth0 with a mark → only the stored tokens, and an erasure that only deletes")
    func auth0() async throws {
        let (marks, keychain) = (MemoryMarks(), SimpleKeychain())
        let kept = Auth0.Credentials(accessToken: "old", refreshToken: "refresh", idToken: "id")
        keychain.items["credentials"] = try JSONEncoder().encode(kept)
        let manager = CredentialsManager(keychain)
        let old = Auth0Move(manager: manager, keychain: keychain, marks: marks)
        #expect(try await old.accessToken() == "old" && manager.renewals == 1)
        marks.mark = MoveInMark()
        #expect(try await old.accessToken() == "old" && manager.renewals == 1)
        await old.refreshEnded()
        #expect(try await old.tokens() == OldTokens(refreshToken: "refresh", idToken: "id"))
        try await old.erase()
        try await old.erase()
        #expect(try await old.tokens() == nil && manager.revocations == 0)
    }

    @Test("The app starts with the switch of the move off → only an interrupted move goes on")
    func start() async throws {
        let (disk, broker) = (PhoneDisk(), try MovingBroker())
        let killed = AppRun(disk, killedAt: 3)
        _ = try? await broker.app(killed).moveIn(from: killed, provider: "oidc", marks: killed)
        let run = AppRun(disk)
        _ = broker.app(run)
        let start = Start(
            broker: broker.url, storage: run, browser: ScriptedBrowser(user: "ana"), old: run, marks: run,
            isMoveOn: false)
        try await start.begin()
        #expect(disk.session == "the-session" && disk.oldTokens == nil && !disk.isMoving)
        try await start.signOut()
        #expect(!Start.file(in: FileManager.default.temporaryDirectory).isMoving)
        try await start.begin()
        #expect(broker.posts == 1)
    }
}
