import Foundation
import Testing

@testable import Coatcheck

@Suite("The move from an old SDK", .timeLimit(.minutes(3)))
struct MoveInTests {
    private func move(_ app: Coatcheck, _ run: AppRun) async throws -> MovedIn {
        try await app.moveIn(from: run, provider: "oidc", marks: run, device: "Ana's phone")
    }

    /// Starts the app as developers do: first a move that was interrupted, then a new one.
    private func started(_ app: Coatcheck, _ run: AppRun) async throws -> MovedIn {
        if let outcome = try await app.resumeMoveIn(from: run, provider: "oidc", marks: run, device: "Ana's phone") {
            return outcome
        }
        return try await move(app, run)
    }

    @Test("The broker grants the move → the session is stored, the old tokens and the mark are erased")
    func granted() async throws {
        let (disk, broker) = (PhoneDisk(), try MovingBroker())
        let run = AppRun(disk)
        guard case .moved(let session) = try await move(broker.app(run), run) else {
            Issue.record("not moved")
            return
        }
        #expect(session?.handle == "ses_1" && disk.session == "the-session")
        #expect(disk.oldTokens == nil && !disk.isMoving && run.faults.isEmpty)
        let body = try #require(broker.differentBodies.first)
        let sent = try #require(try JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any])
        #expect(Set(sent.keys) == ["provider", "client", "tokens", "login_token", "device"])
        #expect(sent["tokens"] as? [String: String] == ["refresh_token": "old-refresh-token", "id_token": "h.e.s"])
        #expect((sent["login_token"] as? String)?.count == 43)
        #expect(try await started(broker.app(run), run) == .notNow(.signedIn) && broker.posts == 1)
    }

    /// The behaviours of the broker during which the app is killed.
    enum Weather: String, CaseIterable, Sendable {
        case granted, unavailable, lost, refused, tooMany

        var replies: [ScriptedBroker.Reply] {
            switch self {
            case .granted: []
            case .unavailable:
                [MovingBroker.problem(503, "provider_unavailable"), MovingBroker.problem(502, "provider_error")]
            case .lost: [.lost, .lost]
            case .refused:
                Array(repeating: MovingBroker.problem(409, "login_required", reason: "grant_revoked"), count: 9)
            case .tooMany: [MovingBroker.problem(429, "rate_limited"), .answer(404, body: "a proxy's page")]
            }
        }
    }

    @Test(
        "The app is killed twice, each time at any step → the next start ends the move with the same request",
        arguments: Weather.allCases, [true, false])
    func killed(_ weather: Weather, before: Bool) async throws {
        var first = 1
        while true {
            var second = 1
            var isLast = false
            while !isLast {
                let (disk, broker) = (PhoneDisk(), try MovingBroker(weather.replies))
                let runs = [
                    AppRun(disk, killedAt: first, before: before),
                    AppRun(disk, killedAt: second, before: before), AppRun(disk),
                ]
                var outcomes: [MovedIn?] = []
                for run in runs {
                    outcomes.append(try? await started(broker.app(run), run))
                    let isSafe = disk.oldTokens != nil || disk.session != nil || weather == .refused
                    #expect(isSafe, "killed at \(first), \(second): neither old tokens nor a session")
                }
                let place = Comment(rawValue: "killed at \(first) and \(second): \(outcomes)")
                #expect(broker.differentBodies.count == 1, place)
                #expect(runs.allSatisfy { $0.faults.isEmpty }, place)
                #expect(disk.oldTokens == nil && !disk.isMoving, place)
                #expect(disk.session == (weather == .refused ? nil : "the-session"), place)
                // A run that reached its end is the last one.
                if !runs[0].wasKilled { return #expect(first > 5) }
                isLast = !runs[1].wasKilled
                second += 1
            }
            first += 1
        }
    }

    @Test("The app is killed before its first post → only its mark exists, and the broker has zero requests")
    func markFirst() async throws {
        for last in 1...3 {
            let (disk, broker) = (PhoneDisk(), try MovingBroker())
            let run = AppRun(disk, killedAt: last)
            _ = try? await move(broker.app(run), run)
            #expect(disk.isMoving && disk.oldTokens != nil && broker.posts == 0)
        }
    }

    @Test(
        "Answers that pass with time → the app keeps everything, and repeats the same post",
        arguments: [
            MovingBroker.problem(503, "provider_unavailable", fields: ["Retry-After": "7"]),
            MovingBroker.problem(502, "provider_error"), MovingBroker.problem(429, "rate_limited"),
            MovingBroker.problem(500, "internal_error"), .answer(404, body: "a page"), .answer(201, body: "a page"),
            .lost, .silence,
        ])
    func passing(_ reply: ScriptedBroker.Reply) async throws {
        let (disk, broker) = (PhoneDisk(), try MovingBroker([reply, reply]))
        let run = AppRun(disk)
        guard case .moved = try await move(broker.app(run), run) else {
            Issue.record("not moved")
            return
        }
        #expect(broker.posts == 3 && broker.differentBodies.count == 1)
        #expect(disk.session == "the-session" && disk.oldTokens == nil && !disk.isMoving)
    }

    @Test("An outage lasts longer than the pauses → the move waits, and the next start continues it")
    func outage() async throws {
        let replies = Array(
            repeating: MovingBroker.problem(503, "provider_unavailable", fields: ["Retry-After": "120"]), count: 5)
        let (disk, broker) = (PhoneDisk(), try MovingBroker(replies))
        let run = AppRun(disk)
        guard case .later(let problem) = try await move(broker.app(run), run) else {
            Issue.record("did not wait")
            return
        }
        #expect(problem?.code == .providerUnavailable && disk.isMoving && disk.oldTokens != nil && disk.session == nil)
        #expect((4...5).contains(broker.posts))
        let next = AppRun(disk)
        guard case .moved = try await started(broker.app(next), next) else {
            Issue.record("not moved")
            return
        }
        #expect(broker.differentBodies.count == 1)
    }

    @Test("The network is missing → the old tokens and the mark stay")
    func offline() async throws {
        let disk = PhoneDisk()
        let run = AppRun(disk)
        let app = Coatcheck(
            broker: try Stack.url("http://127.0.0.1:1"), client: "ios", storage: run, key: nil, browser: nil,
            patience: Patience(), moveInPatience: MoveInPatience(pause: { _ in }), now: { Date() })
        #expect(try await move(app, run) == .later(nil))
        #expect(disk.isMoving && disk.oldTokens != nil && disk.session == nil)
    }

    @Test("Status 400, 401, 403 or 404 → the old tokens stay, the mark goes, and the next start begins a new move")
    func refused() async throws {
        let refusals = [
            (400, "invalid_request"), (401, "proof_required"), (403, "client_not_allowed"), (404, "provider_not_found"),
        ]
        for (status, code) in refusals {
            let refusal = MovingBroker.problem(status, code, reason: "not_open")
            let (disk, broker) = (PhoneDisk(), try MovingBroker([refusal]))
            let run = AppRun(disk)
            guard case .notNow(.refused(let problem)) = try await move(broker.app(run), run) else {
                Issue.record("\(status) → not refused")
                return
            }
            #expect(problem.code.rawValue == code && problem.reason == "not_open")
            #expect(!disk.isMoving && disk.oldTokens != nil && disk.session == nil)
            guard case .moved = try await started(broker.app(run), run) else {
                Issue.record("\(status) → not moved later")
                return
            }
        }
    }

    @Test("409 `login_required` → the old tokens and the mark are erased, and the user has to sign in")
    func loginRequired() async throws {
        let refusal = MovingBroker.problem(409, "login_required", reason: "grant_revoked")
        let (disk, broker) = (PhoneDisk(), try MovingBroker([refusal]))
        let run = AppRun(disk)
        guard case .signIn(let problem) = try await move(broker.app(run), run) else {
            Issue.record("no sign-in")
            return
        }
        #expect(problem?.reason == "grant_revoked" && disk.oldTokens == nil && !disk.isMoving && disk.session == nil)
        #expect(try await started(broker.app(run), run) == .notNow(.noTokens) && broker.posts == 1)
    }

    @Test("409 `code_already_used` on a phone that lacks a session → the erasure waits for the user's sign-in")
    func usedElsewhere() async throws {
        let (disk, broker) = (PhoneDisk(), try MovingBroker())
        broker.takeOver()
        let run = AppRun(disk)
        guard case .signIn(let problem) = try await move(broker.app(run), run) else {
            Issue.record("no sign-in")
            return
        }
        #expect(problem?.code == .codeAlreadyUsed && disk.isMoving && disk.oldTokens != nil)
        var credentials = Credentials()
        (credentials.session, credentials.transport) = ("the-session", .bearer)
        try run.write(credentials)
        guard case .moved = try await started(broker.app(run), run) else {
            Issue.record("not moved")
            return
        }
        #expect(broker.posts == 1 && !disk.isMoving && disk.oldTokens == nil && disk.session == "the-session")
    }

    @Test("409 `code_already_used`, and the phone has a session → the broker is asked for the session")
    func usedHere() async throws {
        for (session, isGood) in [("the-session", true), ("an-ended-session", false)] {
            let disk = PhoneDisk()
            let run = AppRun(disk)
            let broker = try MovingBroker()
            broker.takeOver()
            // Another process stores the session while the post is in flight.
            let storing = try ScriptedBroker { request in
                guard request.method == "POST" else {
                    return request.fields["authorization"] == "Bearer the-session"
                        ? .answer(200, body: MovingBroker.session) : MovingBroker.problem(401, "session_ended")
                }
                var credentials = Credentials()
                (credentials.session, credentials.transport) = (session, .bearer)
                try? run.write(credentials)
                return MovingBroker.problem(409, "code_already_used")
            }
            defer { storing.stop() }
            let app = Coatcheck(broker: storing.url, client: "ios", storage: run)
            switch try await move(app, run) {
            case .moved: #expect(isGood && disk.oldTokens == nil && !disk.isMoving)
            case .signIn: #expect(!isGood && disk.oldTokens != nil && disk.isMoving && disk.session == nil)
            default: Issue.record("\(session)")
            }
        }
    }

    @Test("409 `too_many_sessions` → the move waits, and the same post is repeated at the next start")
    func tooManySessions() async throws {
        let (disk, broker) = (PhoneDisk(), try MovingBroker([MovingBroker.problem(409, "too_many_sessions")]))
        let run = AppRun(disk)
        guard case .later = try await move(broker.app(run), run) else {
            Issue.record("did not wait")
            return
        }
        #expect(disk.isMoving && disk.oldTokens != nil && broker.posts == 1)
        guard case .moved = try await started(broker.app(run), run) else {
            Issue.record("not moved")
            return
        }
        #expect(broker.differentBodies.count == 1)
    }

    @Test("401 `use_dpop_nonce` → the same body is repeated at once, with a proof that has the nonce")
    func nonce() async throws {
        let refusal = MovingBroker.problem(401, "use_dpop_nonce", fields: ["DPoP-Nonce": "n-1"])
        let (disk, broker) = (PhoneDisk(), try MovingBroker([refusal]))
        let run = AppRun(disk)
        guard case .moved = try await move(broker.app(run, key: try SoftwareProofKey()), run) else {
            Issue.record("not moved")
            return
        }
        #expect(broker.nonces == [nil, "n-1"] && broker.differentBodies.count == 1)
    }

    @Test("A refresh of the old SDK ends in time → the post has the tokens that it stored")
    func refreshInTime() async throws {
        let (disk, broker) = (PhoneDisk(), try MovingBroker())
        let run = AppRun(disk, refresh: .milliseconds(300))
        let app = broker.app(run)
        async let outcome = move(app, run)
        while !disk.isMoving { try await Task.sleep(for: .milliseconds(5)) }
        #expect(broker.posts == 0)
        guard case .moved = try await outcome else {
            Issue.record("not moved")
            return
        }
        #expect(broker.posts == 1)
    }

    @Test("A refresh of the old SDK lasts too long → the mark goes, and the move is put off")
    func refreshTooLong() async throws {
        let (disk, broker) = (PhoneDisk(), try MovingBroker())
        let run = AppRun(disk, refresh: .seconds(60))
        let begin = ContinuousClock.now
        #expect(try await move(broker.app(run, refresh: .milliseconds(200)), run) == .notNow(.refreshInProgress))
        #expect(!disk.isMoving && disk.oldTokens != nil && broker.posts == 0)
        #expect(ContinuousClock.now - begin < .seconds(10) && MoveInPatience().refresh == .seconds(30))
    }

    @Test("The caller is cancelled during the wait → the mark stays, and the next start continues")
    func cancelled() async throws {
        let (disk, broker) = (PhoneDisk(), try MovingBroker())
        let run = AppRun(disk, refresh: .seconds(60))
        let app = broker.app(run)
        let task = Task { try await move(app, run) }
        while !disk.isMoving { try await Task.sleep(for: .milliseconds(5)) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(disk.isMoving && disk.oldTokens != nil && broker.posts == 0)
    }

    @Test("The user signs in while the post is in flight → the sign-in's session stays, and the moved one ends")
    func signInMeanwhile() async throws {
        let disk = PhoneDisk()
        let run = AppRun(disk)
        let ended = Recorded()
        let broker = try ScriptedBroker { request in
            guard request.method == "POST" else {
                ended.add(request.fields["authorization"] ?? "")
                return .answer(204)
            }
            var credentials = Credentials()
            (credentials.session, credentials.transport) = ("another-session", .bearer)
            try? run.write(credentials)
            return .answer(201, body: #"{"session_token":"the-session",\#(MovingBroker.session.dropFirst())"#)
        }
        defer { broker.stop() }
        let app = Coatcheck(broker: broker.url, client: "ios", storage: run)
        #expect(try await move(app, run) == .moved(nil))
        #expect(disk.session == "another-session" && disk.oldTokens == nil && !disk.isMoving)
        while ended.all.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        #expect(ended.all == ["Bearer the-session"])
    }

    @Test("The user signs out during a pause → the move stops after one post")
    func signOutMeanwhile() async throws {
        let (disk, broker) = (PhoneDisk(), try MovingBroker([MovingBroker.problem(503, "provider_unavailable")]))
        let run = AppRun(disk)
        let patience = MoveInPatience(pause: { _ in
            try await run.erase()
            try run.remove()
        })
        let app = Coatcheck(
            broker: broker.url, client: "ios", storage: run, key: nil, browser: nil, patience: Patience(),
            moveInPatience: patience, now: { Date() })
        #expect(try await move(app, run) == .notNow(.markTaken) && broker.posts == 1)
    }

    @Test("A mark of another process is unreadable → the old tokens count as being moved")
    func unreadableMark() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("mark-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        #expect(FileMarkStorage(folder).isMoving && !FileMarkStorage(folder.appendingPathComponent("none")).isMoving)
    }

    /// Strings that a server collects.
    private final class Recorded: @unchecked Sendable {
        private let lock = NSLock()
        private var found: [String] = []
        var all: [String] { lock.withLock { found } }
        func add(_ text: String) { lock.withLock { found.append(text) } }
    }
}
