package import Broker
import BrokerRelay
import Synchronization

/// Limits the memory for request bodies that belong to sessions, for each subject and each session.
///
/// A body for the broker itself is kept in memory until its request is answered. A small body for an upstream is kept as
/// well, because the broker may have to send it again. Of a large body for an upstream, the broker keeps a few pieces at a
/// time.
///
/// A subject or session has an entry only while one of its bodies is in progress.
package final class HeldBodies: Sendable {
    /// The bytes that are reserved for the body of one request.
    package struct Place: Sendable {
        fileprivate let bytes: Int
        fileprivate let subject: Key
        fileprivate let session: Key
    }

    /// The session whose limits count the memory of a body.
    package struct Owner: Sendable {
        let session: SessionRow
        /// The request's address if the signature of its proof is still unchecked; otherwise nil.
        ///
        /// With an address, the bytes count towards the session's limit for this address alone.
        let address: IPAddress?
    }

    /// The subject or session whose bytes are counted, for one address or for all.
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

    /// Creates the limits: `limitPerSubject` bytes for a subject, and half as many for a session.
    ///
    /// Each limit is at least the length of the largest body that the relay keeps in memory.
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

    /// Reserves memory for a body; throws `rate_limited` if the owner would exceed a limit.
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

    /// Releases reserved memory.
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
