import Synchronization

/// The use of a session by a relayed call that goes on: what it carries slides the idle time, as a further call does
/// (decision 76).
package final class SessionUse: Sendable {
    private struct State {
        /// The session as the last slide left it.
        var session: LiveSession
        /// The time at which the idle time is to be written next.
        var due: WallTime
    }

    private let sessions: ResumeSession
    private let clock: BrokerClock
    private let state: Mutex<State>

    /// Creates the use of a session that has just slid; nil for a web page's, whose cookie is easier to steal: a page that
    /// stands open does not keep it alive.
    package init?(of session: LiveSession, _ sessions: ResumeSession) {
        guard session.facts.child?.kind != .web else { return nil }
        self.sessions = sessions.waiting
        clock = sessions.context.clock
        let slid = session.slid(at: clock.now())
        state = Mutex(State(session: slid, due: slid.nextSlide))
    }

    /// Takes note that the call has carried bytes, in whichever direction.
    package func carries() {
        let now = clock.now()
        let session = state.withLock { state -> LiveSession? in
            guard now >= state.due else { return nil }
            let session = state.session
            state.session = session.slid(at: now)
            // At least a second ahead, whatever the clock has done.
            state.due = max(state.session.nextSlide, now.advanced(by: .seconds(1)))
            return session
        }
        guard let session else { return }
        guard now >= session.lapsesAt else { return sessions.slide(session) }
        // A byte that is too late brings back no session; but other calls may have kept it.
        let sessions = sessions
        sessions.context.spawner.spawn("slide") {
            guard let until = try? await sessions.storedLapse(of: session.tokenDigest) else { return }
            sessions.slide(session.living(until: until))
        }
    }
}

extension LiveSession {
    /// The time at which its own or its parent's idle time is to be written next.
    fileprivate var nextSlide: WallTime { family.map { min(slidesAt, $0.parent.slidesAt) } ?? slidesAt }

    /// Returns the session as other calls have kept it: it and its parent live until a time at least.
    fileprivate func living(until end: WallTime) -> LiveSession {
        var row = row
        row.idleExpiresAt = max(row.idleExpiresAt, end)
        let family = family.map { Family(parent: $0.parent.living(until: end), policy: $0.policy) }
        return LiveSession(row: row, facts: facts, binding: binding, family: family)
    }

    /// Returns the session as a slide at this time leaves it.
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
