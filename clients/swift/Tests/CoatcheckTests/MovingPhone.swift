import Foundation

@testable import Coatcheck

/// The disk of a phone that moves to the broker.
///
/// The disk survives the kills of the app.
final class PhoneDisk: @unchecked Sendable {
    private let lock = NSLock()
    private var credentials: Credentials?
    private var mark: MoveInMark?
    private var old: OldTokens? = OldTokens(refreshToken: "old-refresh-token", idToken: "h.e.s")

    var session: String? { lock.withLock { credentials?.session } }
    var oldTokens: OldTokens? { lock.withLock { old } }
    var isMoving: Bool { lock.withLock { mark != nil } }

    fileprivate func read() -> Credentials? { lock.withLock { credentials } }
    fileprivate func write(_ next: Credentials?) { lock.withLock { credentials = next } }
    fileprivate func marked() -> MoveInMark? { lock.withLock { mark } }
    fileprivate func change(_ work: (MoveInMark?) -> MoveInMark?) -> MoveInMark? {
        lock.withLock {
            mark = work(mark)
            return mark
        }
    }
    fileprivate func erase() { lock.withLock { old = nil } }
}

/// One run of the app, which ends at a given step: before or after the step's effect.
///
/// The steps are the durable writes, the readings of the old tokens and the requests.
final class AppRun: CredentialStorage, MarkStorage, OldSDK, @unchecked Sendable {
    struct Killed: Error {}

    let disk: PhoneDisk
    private let lock = NSLock()
    private let last: Int?
    private let isBefore: Bool
    private var count = 0
    private var isDead = false
    /// The faults that the steps of this run saw.
    private var seen: [String] = []
    /// The duration of the old SDK's refresh.
    private let refresh: Duration

    init(_ disk: PhoneDisk, killedAt last: Int? = nil, before isBefore: Bool = false, refresh: Duration = .zero) {
        (self.disk, self.last, self.isBefore, self.refresh) = (disk, last, isBefore, refresh)
    }

    var wasKilled: Bool { lock.withLock { isDead } }
    var faults: [String] { lock.withLock { seen } }
    var steps: Int { lock.withLock { count } }

    /// Does a step, or ends the run.
    func step<Value>(_ work: () -> Value) throws -> Value {
        try lock.withLock {
            guard !isDead else { throw Killed() }
            count += 1
            isDead = count == last
            if isDead, isBefore { throw Killed() }
            let value = work()
            if isDead { throw Killed() }
            return value
        }
    }

    private func look() throws { if wasKilled { throw Killed() } }

    // The storage of the credentials.
    func read() throws -> Credentials? {
        try look()
        return disk.read()
    }
    func write(_ credentials: Credentials?) throws { try step { disk.write(credentials) } }

    // The mark.
    func read() throws -> MoveInMark? {
        try look()
        return disk.marked()
    }
    func change(_ work: (MoveInMark?) -> MoveInMark?) throws -> MoveInMark? {
        try step { withoutActuallyEscaping(work) { disk.change($0) } }
    }

    // The old SDK.
    func refreshEnded() async { try? await Task.sleep(for: refresh) }
    func tokens() async throws -> OldTokens? { try step { disk.oldTokens } }
    func erase() async throws {
        try step {
            if !disk.isMoving { seen.append("the old tokens are erased without a mark") }
            disk.erase()
        }
    }
}

/// A broker that takes over refresh tokens as the real one does: one session for each token and starter.
final class MovingBroker: @unchecked Sendable {
    private let lock = NSLock()
    private var answers: [ScriptedBroker.Reply]
    private var bodies: [String] = []
    private var starter: String?
    private var run: AppRun?
    private var server: ScriptedBroker?
    private var proofs: [String?] = []

    /// Each of the answers is sent once, before the broker decides itself.
    init(_ answers: [ScriptedBroker.Reply] = []) throws {
        self.answers = answers
        server = try ScriptedBroker { [weak self] in self?.reply($0) ?? .lost }
    }

    deinit { server?.stop() }

    var url: URL { server?.url ?? URL(fileURLWithPath: "/") }
    /// The bodies of the posts, each once.
    var differentBodies: Set<String> { lock.withLock { Set(bodies) } }
    var posts: Int { lock.withLock { bodies.count } }
    var nonces: [String?] { lock.withLock { proofs } }
    /// Whether the broker made a session.
    var hasSession: Bool { lock.withLock { starter != nil } }

    /// Makes a session that another device has already used.
    func takeOver() { lock.withLock { starter = "another device" } }

    /// The app as it is after a start.
    func app(_ run: AppRun, key: (any ProofKey)? = nil, refresh: Duration = .seconds(30)) -> Coatcheck {
        lock.withLock { self.run = run }
        let patience = MoveInPatience(
            refresh: refresh, answer: .seconds(2),
            pause: { _ in if run.wasKilled { throw AppRun.Killed() } })
        return Coatcheck(
            broker: url, client: "ios", storage: run, key: key, browser: nil, patience: Patience(deadline: .seconds(1)),
            moveInPatience: patience, now: { Date() })
    }

    private func reply(_ request: ScriptedBroker.Request) -> ScriptedBroker.Reply {
        let run = lock.withLock { self.run }
        do {
            return try run?.step { decided(request) } ?? decided(request)
        } catch { return .lost }
    }

    private func decided(_ request: ScriptedBroker.Request) -> ScriptedBroker.Reply {
        lock.withLock {
            guard request.method == "POST" else {
                return request.fields["authorization"] == "Bearer the-session"
                    ? .answer(200, fields: ["Content-Type": "application/json"], body: Self.session)
                    : Self.problem(401, "session_required")
            }
            bodies.append(request.body)
            proofs.append(request.fields["dpop"].flatMap(Self.nonce))
            let token = Self.member("login_token", request.body)
            if !answers.isEmpty {
                let next = answers.removeFirst()
                // The answer is lost after the broker has made the session.
                if case .lost = next { starter = starter ?? token }
                return next
            }
            starter = starter ?? token
            guard starter == token else { return Self.problem(409, "code_already_used") }
            let body = #"{"session_token":"the-session",\#(Self.session.dropFirst())"#
            return .answer(201, fields: ["Content-Type": "application/json"], body: body)
        }
    }

    static let session =
        #"{"handle":"ses_1","version":1,"provider":"oidc","client":"ios","subject":"user-ana","identity":{},"scope":[],"#
        + #""created_at":"2026-01-01T00:00:00Z","last_used_at":"2026-01-01T00:00:00Z","#
        + #""idle_expires_at":"2027-01-01T00:00:00Z","expires_at":"2027-01-01T00:00:00Z","#
        + #""tokens":{"expires_at":null,"refreshable":true}}"#

    /// Returns a refusal as the broker sends it.
    static func problem(
        _ status: Int, _ code: String, reason: String? = nil, fields: [String: String] = [:]
    ) -> ScriptedBroker.Reply {
        let reason = reason.map { #""reason":"\#($0)","# } ?? ""
        return .answer(
            status, fields: fields.merging(["Content-Type": "application/problem+json"]) { $1 },
            body: #"{"title":"t","status":\#(status),"code":"\#(code)",\#(reason)"#
                + #""detail":"d","request_id":"req_1","login":null}"#)
    }

    static func member(_ name: String, _ body: String) -> String? {
        let object = try? JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any]
        return object?[name] as? String
    }

    /// Returns the nonce in a proof.
    private static func nonce(_ proof: String) -> String? {
        var text = proof.components(separatedBy: ".").dropFirst().first ?? ""
        text = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        while text.count % 4 > 0 { text += "=" }
        return Data(base64Encoded: text).flatMap { member("nonce", String(decoding: $0, as: UTF8.self)) }
    }
}
