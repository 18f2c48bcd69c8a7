import Broker
import BrokerTestSupport

/// The judge of imports: what apps were told, and how often each of their tokens was sent to the provider.
///
/// A token makes at most one call that may have arrived, and one more only after a lost answer.
final class Imports: @unchecked Sendable {
    /// One call with an app's token.
    final class Call {
        enum Fate {
            /// The broker process waits for the answer, or has died.
            case open
            /// The broker process knows that the token is unused.
            case unspent
            /// As far as the broker process knows, the token may be used.
            case lost
            case granted, refused
        }

        let process: SimulatedProcess
        let sentAt: Int
        var fate = Fate.open

        init(_ process: SimulatedProcess, at moment: Int) {
            self.process = process
            sentAt = moment
        }

        /// Whether the call's process has lived until now, and has reached the store at all times.
        private var isUndisturbed: Bool { process.isUndisturbed(since: sentAt) && process.storeHeldSince(sentAt) }

        /// Whether the call forbids another call with the same token.
        var isKnown: Bool { fate != .lost && fate != .unspent && isUndisturbed }

        /// Whether the broker may have lost the answer.
        var mayBeLost: Bool { fate != .unspent && !isKnown }

        /// Whether the call counts towards the two that may have arrived.
        ///
        /// A refusal decides only after the first granted import, and the store may fail to tell whether there is one. The
        /// broker then releases the import.
        var counts: Bool { fate != .unspent && (fate != .refused || isUndisturbed) }
    }

    private unowned let world: Simulation
    private var calls: [String: [Call]] = [:]
    private var movers: [Mover] = []

    init(_ world: Simulation) { self.world = world }

    private var weather: Weather { world.weather }
    /// Whether clocks are wrong at times, so that a window may seem over.
    private var hasWrongClocks: Bool { weather.clocksStep }
    /// Whether a process may lose a claim before its first call.
    private var losesClaims: Bool {
        Double(weather.crashes + weather.pauses + weather.outages + weather.partitions + weather.heldWrites)
            + weather.storeFails + weather.storeInDoubt > 0
    }

    /// Notes that an app begins to bring its session.
    func begins(_ mover: Mover) { movers.append(mover) }

    /// Notes that an app was given a session; each further one has to be the same.
    func moves(_ mover: Mover, to session: Digest) {
        if mover.end == .refused { wrongful("\(mover.name) has a session, although its app has to sign in") }
        if mover.end == nil { mover.end = .moved }
        mover.sessions.insert(session)
        if mover.sessions.count > 1 { wrongful("a repeated import made another session") }
        if let old = mover.old { world.moves.moved(old) }
    }

    /// Judges a call that a process is about to send.
    func sends(_ call: Call, of token: String) {
        let spending = calls[token, default: []].filter(\.counts)
        if spending.count > 1 { world.rules.fault("the token \(token) is sent a third time") }
        if spending.contains(where: \.isKnown) {
            world.rules.fault("the token \(token) is sent again, although its call has an answer or waits for one")
        }
        world.say("process \(call.process.number) sends the app's token \(token)")
        calls[token, default: []].append(call)
    }

    /// Judges the answer that an app has to sign in.
    func refused(_ mover: Mover, _ end: ImportEnd?) async {
        world.say("the import of \(mover.name) ends: \(end?.rawValue ?? "")")
        mover.end = .refused
        let isRight =
            switch end {
            case .refreshLost: await mayBeLost(mover)
            case .expired: hasWrongClocks
            case .unknownSession: mover.old.map(isUnknown) ?? false
            case .grantRevoked, .notBound, nil: false
            }
        if !isRight { return wrongful("the import of \(mover.name) was refused") }
        if end != .unknownSession { world.verdict.beyondSaving += 1 }
    }

    /// Whether the answer to a call with an app's refresh token may be lost.
    private func mayBeLost(_ mover: Mover) async -> Bool {
        guard let token = mover.refreshToken else { return false }
        // A question to the old system may be repeated, so only the refresh token's row can be lost.
        let key = world.vault.index(.importedTokens, ["as", token])
        if mover.old != nil {
            let row = try? await world.memory.exchange(key)
            guard row?.outcome == .spent(.refreshLost) else { return false }
        }
        return losesClaims || calls[token, default: []].contains(where: \.mayBeLost) || mayHaveLostPair(mover)
    }

    /// Whether the answer to a refresh of an import's new pair may be lost.
    private func mayHaveLostPair(_ mover: Mover) -> Bool {
        guard let token = mover.refreshToken, let family = world.authority.named(token)?.family else { return false }
        return calls.contains { other, calls in
            other != token && world.authority.named(other)?.family === family && calls.contains(where: \.mayBeLost)
        }
    }

    /// Whether the old system lacks a session that could be moved.
    private func isUnknown(_ old: OldSession) -> Bool {
        old.isLoggedOut || isUnconfirmed(old)
    }

    /// Whether the user of an old session lacks the confirmation that the client demands (`subject: confirmed`).
    private func isUnconfirmed(_ old: OldSession) -> Bool { old.refreshToken == nil && !weather.moving.isBelieved }

    /// Judges the answer that an app's token is used up, which is right if another app has brought the same refresh token.
    func alreadyUsed(_ mover: Mover) {
        mover.end = .alreadyUsed
        if !hasWrongClocks, others(mover).isEmpty {
            wrongful("the app's token \(mover.name) is called used up before its app has a session")
        }
    }

    /// Judges the answer that the time for moves is over: a move that has begun has to go on.
    func closed(_ mover: Mover, _ problem: BrokerProblem) {
        mover.end = .closed
        world.say("the window is closed for \(mover.name)")
        guard !hasWrongClocks else { return }
        // A process learns the store's time with an error below a second.
        let isOver = weather.moving.ends.map { world.scheduler.now + 1_000 >= $0 } ?? false
        let isClosed = if case .importRefused(.closed) = problem.payload { true } else { false }
        let hasBegun = calls[mover.refreshToken ?? "", default: []].contains { call in
            [.open, .lost, .granted].contains(call.fate)
        }
        if !isOver || !isClosed || hasBegun && others(mover).isEmpty {
            wrongful("the move of \(mover.name) was refused as too late")
        }
    }

    /// The other apps that bring the same refresh token.
    private func others(_ mover: Mover) -> [Mover] {
        guard let token = mover.refreshToken else { return [] }
        return movers.filter { $0 !== mover && $0.refreshToken == token }
    }

    func wrongful(_ text: String) {
        world.say("FAULT: \(text)")
        world.verdict.wrongfulLogOuts += 1
    }

    /// Judges the imports long after the faults.
    func judge() {
        for mover in movers { judgeSessions(mover) }
        guard !hasWrongClocks else { return }
        for mover in movers {
            switch mover.end {
            case nil: wrongful("the import of \(mover.name) stays open")
            // The other app may have to sign in because its new pair is lost, which is judged for itself.
            case .alreadyUsed where !others(mover).contains { $0.end == .moved || $0.end == .refused }:
                wrongful("the app's token \(mover.name) is called used up, although every app lacks its session")
            case .mismatched: judgeGrant(mover)
            case .alreadyUsed, .moved, .refused, .closed: break
            }
        }
    }

    /// Checks that an app's session became at most one session, and zero if the user had logged out.
    private func judgeSessions(_ mover: Mover) {
        let person = mover.old?.person ?? mover.refreshToken.flatMap { world.authority.named($0) }?.family.person
        guard let person else { return }
        let count = world.sessions(of: person)
        if count > 1 { world.rules.fault("\(mover.name) became \(count) sessions") }
        guard count > 0, let old = mover.old, old.wasNeverHandedOut || old.namesAnother || isUnconfirmed(old)
        else { return }
        world.say("FAULT: \(mover.name) became a session, although its user is gone, another or unconfirmed")
        world.verdict.endedSessionsAlive += 1
    }

    /// Checks that the broker has revoked a grant whose user the old system names wrongly.
    private func judgeGrant(_ mover: Mover) {
        guard let token = mover.refreshToken, let family = world.authority.named(token)?.family, family.death == nil,
            weather.reach == .token, world.all.contains(where: \.mayRevoke)
        else { return }
        world.say("FAULT: the grant of \(mover.name) lives, although the old system names another user")
        world.verdict.endedSessionsAlive += 1
    }
}
