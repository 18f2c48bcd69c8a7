package import Broker
import BrokerRelay
import Synchronization

/// Counts the memory of the request bodies of sessions, and limits it for each subject and each session.
///
/// A body for the broker itself is kept whole until its answer. So is a small body for an upstream, because the broker may
/// have to send it again. Of a large one, the broker keeps some pieces at a time.
///
/// An entry exists only while a body is in progress.
package final class HeldBodies: Sendable {
    /// The bytes reserved for one request, until they are released.
    package struct Place: Sendable {
        fileprivate let bytes: Int
        fileprivate let subject: Key
        fileprivate let session: Key
    }

    /// The session that a body belongs to.
    package struct Owner: Sendable {
        let session: SessionRow
        /// The address of the body, if the request has not yet proved that it may use the session.
        ///
        /// The bytes then count for this address alone.
        let address: IPAddress?
    }

    /// The subject or session whose bytes are counted, at one address or at all.
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

    /// Creates the counter with a limit per subject; a session may have half of it.
    package init(limitPerSubject: Int = 8 << 20) {
        self.limitPerSubject = max(limitPerSubject, Relay.heldBody)
        limitPerSession = max(limitPerSubject / 2, Relay.heldBody)
    }

    /// Reserves memory for a body of the announced length, at most `most` bytes; a nil length reserves `most`.
    ///
    /// Throws `rate_limited` if the session or subject would exceed its limit.
    package func take(_ length: Int?, of most: Int = Relay.heldBody, for session: SessionRow) throws(BrokerProblem)
        -> Place
    {
        try take(length, of: most, for: Owner(session: session, address: nil))
    }

    /// Reserves the same for a session that the request may not have proved.
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

    /// Releases a place.
    package func giveBack(_ place: Place) {
        state.withLock { state in
            let ofSubject = (state.subjects[place.subject] ?? 0) - place.bytes
            let ofSession = (state.sessions[place.session] ?? 0) - place.bytes
            state.subjects[place.subject] = ofSubject > 0 ? ofSubject : nil
            state.sessions[place.session] = ofSession > 0 ? ofSession : nil
        }
    }

    /// The number of subjects and sessions with an entry.
    var entries: Int { state.withLock { $0.subjects.count + $0.sessions.count } }
}
