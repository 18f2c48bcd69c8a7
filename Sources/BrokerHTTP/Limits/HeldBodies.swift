package import Broker
import BrokerRelay
import Synchronization

/// Counts the memory that bodies of requests with a session take, by subject and by session, against what each may have.
///
/// A body for the broker itself is held whole until it is answered. So is a small one for an upstream, because it may have to be
/// sent again; of a large one some pieces are.
/// There is an entry only for who has a body under way.
package final class HeldBodies: Sendable {
    /// The bytes held for a request, until they are given back.
    package struct Place: Sendable {
        fileprivate let bytes: Int
        fileprivate let subject: Key
        fileprivate let session: Key
    }

    /// The session whose a body is.
    package struct Owner: Sendable {
        let session: SessionRow
        /// The address that the body comes from, while only that one has to do with it: the request has not proved that it may use
        /// the session.
        let address: IPAddress?
    }

    /// The subject or session that bytes are counted for, at one address or everywhere.
    fileprivate struct Key: Sendable, Hashable {
        let digest: Digest
        let address: IPAddress?
    }

    private struct State {
        var subjects: [Key: Int] = [:]
        var sessions: [Key: Int] = [:]
    }

    private let limitPerSubject: Int
    private let limitPerSession: Int
    private let state = Mutex(State())

    /// Creates it with what a subject may have; one session has half of that.
    package init(limitPerSubject: Int = 8 << 20) {
        self.limitPerSubject = max(limitPerSubject, Relay.heldBody)
        limitPerSession = max(limitPerSubject / 2, Relay.heldBody)
    }

    /// Takes what a body of an announced length may come to, nil for one that is not announced, and of which `most` is held; throws
    /// `rate_limited` when its session or subject holds as much as it may.
    package func take(_ length: Int?, of most: Int = Relay.heldBody, for session: SessionRow) throws(BrokerProblem)
        -> Place
    {
        try take(length, of: most, for: Owner(session: session, address: nil))
    }

    /// Takes the same for a session that the request may not have proved.
    func take(_ length: Int?, of most: Int, for owner: Owner) throws(BrokerProblem) -> Place {
        let bytes = min(max(length ?? most, 0), most)
        let place = Place(
            bytes: bytes, subject: Key(digest: owner.session.subject, address: owner.address),
            session: Key(digest: owner.session.tokenDigest, address: owner.address))
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
