package import Broker
import BrokerWire
import Synchronization

/// The places at one upstream.
///
/// A slow upstream fills only its own places, and each caller has only a share of them.
final class UpstreamConcurrency: Sendable {
    private let shares: Mutex<UpstreamShares>

    init(limit: Int) { shares = Mutex(UpstreamShares(limit: limit)) }

    /// Takes a place for a session's call.
    ///
    /// Throws `rate_limited` if the caller has used its share, and `upstream_busy` if all places are taken. The place
    /// becomes free when its last holder releases it. Until then, the connections of the call stay open.
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

    /// A taken place.
    final class Place: Sendable {
        private let concurrency: UpstreamConcurrency
        private let subject: String
        private let handle: SessionHandle
        /// Guards the connections of the call, which stay open until its end.
        private let clients = Mutex<[UpstreamClient]>([])

        fileprivate init(concurrency: UpstreamConcurrency, subject: String, handle: SessionHandle) {
            self.concurrency = concurrency
            self.subject = subject
            self.handle = handle
        }

        /// Keeps the connections of the call until its end.
        func hold(_ client: UpstreamClient) {
            clients.withLock { held in
                if !held.contains(where: { $0 === client }) { held.append(client) }
            }
        }

        deinit { concurrency.shares.withLock { $0.giveBack(subject, handle) } }
    }
}

/// Counts the calls in progress to one upstream, and limits them for each subject and each session.
///
/// A subject may have a quarter of the places, and a session half of that, but each at least two. If there is more than one
/// place, a single subject can never take the last one.
///
/// The provider is not part of the key, because an upstream accepts sessions of one provider only. An entry exists only
/// while its calls are in progress.
package struct UpstreamShares: Sendable {
    /// The reason why a call gets no place.
    package enum Refusal: Error, Sendable, Equatable {
        /// The caller has used its share.
        case shareIsTaken
        /// All places are taken.
        case allAreTaken
    }

    /// The most calls in progress.
    package let limit: Int
    /// The share of one subject.
    package let limitPerSubject: Int
    /// The share of one session.
    package let limitPerSession: Int

    /// The number of calls in progress.
    package private(set) var count = 0
    private var subjects: [String: Int] = [:]
    private var sessions: [SessionHandle: Int] = [:]

    package init(limit: Int) {
        self.limit = limit
        limitPerSubject = min(max(limit / 4, 2), max(limit - 1, 1))
        limitPerSession = min(max(limitPerSubject / 2, 2), limitPerSubject)
    }

    /// The number of subjects and sessions with an entry.
    package var entries: Int { subjects.count + sessions.count }

    /// Counts a call; throws the reason if all its places are taken.
    package mutating func take(_ subject: String, _ session: SessionHandle) throws(Refusal) {
        let (ofSubject, ofSession) = (subjects[subject] ?? 0, sessions[session] ?? 0)
        guard ofSubject < limitPerSubject, ofSession < limitPerSession else { throw .shareIsTaken }
        guard count < limit else { throw .allAreTaken }
        count += 1
        subjects[subject] = ofSubject + 1
        sessions[session] = ofSession + 1
    }

    /// Removes a counted call.
    package mutating func giveBack(_ subject: String, _ session: SessionHandle) {
        guard let ofSubject = subjects[subject], let ofSession = sessions[session] else { return }
        count -= 1
        subjects[subject] = ofSubject > 1 ? ofSubject - 1 : nil
        sessions[session] = ofSession > 1 ? ofSession - 1 : nil
    }
}
