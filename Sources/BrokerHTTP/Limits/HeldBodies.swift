package import Broker
import BrokerRelay
import Synchronization

/// Counts the memory that bodies of relayed requests take while they come in, by subject and by session, against what each
/// may have.
///
/// A small body is held whole until it is answered, because it may have to be sent again; of a large one some pieces are.
/// There is an entry only for who has a body under way.
package final class HeldBodies: Sendable {
    /// The bytes held for a request, until they are given back.
    package struct Place: Sendable {
        fileprivate let bytes: Int
        fileprivate let subject: Digest
        fileprivate let session: Digest
    }

    private struct State {
        var subjects: [Digest: Int] = [:]
        var sessions: [Digest: Int] = [:]
    }

    private let limitPerSubject: Int
    private let limitPerSession: Int
    private let state = Mutex(State())

    /// Creates it with what a subject may have; one session has half of that.
    package init(limitPerSubject: Int = 8 << 20) {
        self.limitPerSubject = max(limitPerSubject, Relay.heldBody)
        limitPerSession = max(limitPerSubject / 2, Relay.heldBody)
    }

    /// Takes what a body of an announced length may come to, nil for one that is not announced; throws `rate_limited` when
    /// its session or subject holds as much as it may.
    package func take(_ length: Int?, for session: SessionRow) throws(BrokerProblem) -> Place {
        let bytes = min(max(length ?? Relay.heldBody, 0), Relay.heldBody)
        let place = Place(bytes: bytes, subject: session.subject, session: session.tokenDigest)
        let isTaken = state.withLock { state in
            let ofSubject = (state.subjects[place.subject] ?? 0) + bytes
            let ofSession = (state.sessions[place.session] ?? 0) + bytes
            guard ofSubject <= limitPerSubject, ofSession <= limitPerSession else { return false }
            state.subjects[place.subject] = ofSubject
            state.sessions[place.session] = ofSession
            return true
        }
        guard isTaken else {
            throw BrokerProblem(.rateLimited, privateDetail: "bodies of one user", retryAfter: .seconds(5))
        }
        return place
    }

    /// Gives a place back.
    package func giveBack(_ place: Place) {
        state.withLock { state in
            let ofSubject = (state.subjects[place.subject] ?? 0) - place.bytes
            let ofSession = (state.sessions[place.session] ?? 0) - place.bytes
            state.subjects[place.subject] = ofSubject > 0 ? ofSubject : nil
            state.sessions[place.session] = ofSession > 0 ? ofSession : nil
        }
    }

    /// The number of subjects and sessions that are remembered.
    var entries: Int { state.withLock { $0.subjects.count + $0.sessions.count } }
}
