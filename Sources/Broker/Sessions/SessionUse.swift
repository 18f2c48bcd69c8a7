import Synchronization

/// The use of a session by a relayed call that lasts long.
///
/// Bytes that the call transmits move the session's idle end, just as a new call would (decision 76).
package final class SessionUse: Sendable {
    private struct State {
        /// The session; its idle end is the one that the last written use gave it.
        var session: LiveSession
        /// The earliest time at which the idle end is written again.
        var due: WallTime
    }

    private let sessions: ResumeSession
    private let clock: BrokerClock
    private let state: Mutex<State>

    /// Creates the use of a session whose idle end was just moved.
    ///
    /// Returns nil for the session of a web page. An open page must not keep its session alive, because a page's cookie is easier
    /// to steal.
    package init?(of session: LiveSession, _ sessions: ResumeSession) {
        guard session.facts.child?.kind != .web else { return nil }
        self.sessions = sessions.waiting
        clock = sessions.context.clock
        let slid = session.slid(at: clock.now())
        state = Mutex(State(session: slid, due: slid.nextSlide))
    }

    /// Notes that the call has transmitted bytes, in either direction.
    package func carries() {
        let now = clock.now()
        let session = state.withLock { state -> LiveSession? in
            guard now >= state.due else { return nil }
            let session = state.session
            state.session = session.slid(at: now)
            // The next write is at least a second ahead, even if the clock has jumped.
            state.due = max(state.session.nextSlide, now.advanced(by: .seconds(1)))
            return session
        }
        guard let session else { return }
        guard now >= session.lapsesAt else { return sessions.slide(session) }
        // A late byte does not revive a lapsed session. But other calls may have kept the session alive, so read its end from the
        // store.
        let sessions = sessions
        sessions.context.spawner.spawn("slide") {
            guard let until = try? await sessions.storedLapse(of: session.tokenDigest) else { return }
            sessions.slide(session.living(until: until))
        }
    }
}

extension LiveSession {
    /// The earliest time at which the idle end of the session or its parent is written again.
    fileprivate var nextSlide: WallTime { family.map { min(slidesAt, $0.parent.slidesAt) } ?? slidesAt }

    /// Returns the session with its idle end and its parent's moved to at least `end`, because other calls have used it.
    fileprivate func living(until end: WallTime) -> LiveSession {
        var row = row
        row.idleExpiresAt = max(row.idleExpiresAt, end)
        let family = family.map { Family(parent: $0.parent.living(until: end), policy: $0.policy) }
        return LiveSession(row: row, facts: facts, binding: binding, family: family)
    }

    /// Returns the session with the idle end that a use at this time gives it.
    fileprivate func slid(at now: WallTime) -> LiveSession {
        var row = row
        if now >= slidesAt {
            row.lastUsedAt = max(row.lastUsedAt, now)
            let idleEnd = SessionLimits.idleEnd(usedAt: now, created: row.createdAt, facts.lifetimes)
            row.idleExpiresAt = max(row.idleExpiresAt, idleEnd)
        }
        let family = family.map { Family(parent: $0.parent.slid(at: now), policy: $0.policy) }
        return LiveSession(row: row, facts: facts, binding: binding, family: family)
    }
}
