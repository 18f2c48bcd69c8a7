package import Broker
import BrokerWire
import Synchronization

/// The places at one upstream: a slow upstream fills its own only, and nobody takes more than a share of them.
final class UpstreamConcurrency: Sendable {
    private let shares: Mutex<UpstreamShares>

    init(limit: Int) { shares = Mutex(UpstreamShares(limit: limit)) }

    /// Takes a place for a session's call; throws `rate_limited` when the caller has its share, and `upstream_busy`
    /// when there is none.
    ///
    /// It is free again when the last holder lets it go; so long the connections that it is a place on stay open.
    func take(for session: LiveSession) throws(BrokerProblem) -> Place {
        let (subject, handle) = (session.facts.subject, session.row.handle)
        let refusal: UpstreamShares.Refusal? = shares.withLock { shares in
            do throws(UpstreamShares.Refusal) {
                try shares.take(subject, handle)
                return nil
            } catch { return error }
        }
        switch refusal {
        case nil: return Place(concurrency: self, subject: subject, handle: handle)
        case .shareIsTaken:
            throw BrokerProblem(
                .rateLimited, detail: "Too many of this user's calls to this upstream are under way.",
                retryAfter: .seconds(1))
        case .allAreTaken: throw BrokerProblem(.upstreamBusy, retryAfter: .seconds(1))
        }
    }

    /// The number of places taken.
    var count: Int { shares.withLock(\.count) }

    /// A place that was taken.
    final class Place: Sendable {
        private let concurrency: UpstreamConcurrency
        private let subject: String
        private let handle: SessionHandle
        /// Guards the connections that the call is on, which stay as long as it does.
        private let clients = Mutex<[UpstreamClient]>([])

        fileprivate init(concurrency: UpstreamConcurrency, subject: String, handle: SessionHandle) {
            self.concurrency = concurrency
            self.subject = subject
            self.handle = handle
        }

        /// Keeps the connections that the call goes out on, until it is over.
        func hold(_ client: UpstreamClient) {
            clients.withLock { held in
                if !held.contains(where: { $0 === client }) { held.append(client) }
            }
        }

        deinit { concurrency.shares.withLock { $0.giveBack(subject, handle) } }
    }
}

/// Counts the calls to one upstream that are under way, by subject and by session against what each may have.
///
/// A subject may have a quarter of the places, at least two; one session half of that, at least two. Whatever the
/// limit, one place is left that a single subject cannot take, as far as there is more than one. Subjects need no
/// provider beside them, because an upstream takes the sessions of one provider only. There is an entry only for who
/// has a call under way.
package struct UpstreamShares: Sendable {
    /// The reason for which a call gets no place.
    package enum Refusal: Error, Sendable, Equatable {
        /// The caller has as many as it may have.
        case shareIsTaken
        /// All are taken.
        case allAreTaken
    }

    /// The most calls under way.
    package let limit: Int
    /// One subject's share of them.
    package let limitPerSubject: Int
    /// One session's share of them.
    package let limitPerSession: Int

    /// The number of calls under way.
    package private(set) var count = 0
    private var subjects: [String: Int] = [:]
    private var sessions: [SessionHandle: Int] = [:]

    package init(limit: Int) {
        self.limit = limit
        limitPerSubject = min(max(limit / 4, 2), max(limit - 1, 1))
        limitPerSession = min(max(limitPerSubject / 2, 2), limitPerSubject)
    }

    /// The number of subjects and sessions that are remembered.
    package var entries: Int { subjects.count + sessions.count }

    /// Counts a call, or throws why there is no place for it.
    package mutating func take(_ subject: String, _ session: SessionHandle) throws(Refusal) {
        let (ofSubject, ofSession) = (subjects[subject] ?? 0, sessions[session] ?? 0)
        guard ofSubject < limitPerSubject, ofSession < limitPerSession else { throw .shareIsTaken }
        guard count < limit else { throw .allAreTaken }
        count += 1
        subjects[subject] = ofSubject + 1
        sessions[session] = ofSession + 1
    }

    /// Takes a counted call out again.
    package mutating func giveBack(_ subject: String, _ session: SessionHandle) {
        guard let ofSubject = subjects[subject], let ofSession = sessions[session] else { return }
        count -= 1
        subjects[subject] = ofSubject > 1 ? ofSubject - 1 : nil
        sessions[session] = ofSession > 1 ? ofSession - 1 : nil
    }
}
