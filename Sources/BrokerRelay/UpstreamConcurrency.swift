package import Broker
import BrokerWire
import Synchronization

/// Limits the number of calls to one upstream that are in progress.
///
/// A slow upstream uses up only its own limit, and each subject and each session may have only a share of this limit.
final class UpstreamConcurrency: Sendable {
    private let shares: Mutex<UpstreamShares>

    init(limit: Int) { shares = Mutex(UpstreamShares(limit: limit)) }

    /// Counts a call of a session as in progress.
    ///
    /// Throws `rate_limited` if the subject or session has used up its share, and `upstream_busy` if the whole limit is used
    /// up. The call counts until the last reference to the result is released. Until then, the connections of the call stay
    /// open.
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

    /// The number of calls in progress.
    var count: Int { shares.withLock(\.count) }

    /// A call that counts as in progress.
    final class Place: Sendable {
        private let concurrency: UpstreamConcurrency
        private let subject: String
        private let handle: SessionHandle
        /// Guards the connections of the call, which stay open until the call ends.
        private let clients = Mutex<[UpstreamClient]>([])

        fileprivate init(concurrency: UpstreamConcurrency, subject: String, handle: SessionHandle) {
            self.concurrency = concurrency
            self.subject = subject
            self.handle = handle
        }

        /// Keeps a connection pool open until the call ends.
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
/// A subject may have a quarter of the upstream's limit, and a session half of the subject's share. Each of them may have at
/// least two calls. If the upstream's limit is more than one, a single subject can never use it up.
///
/// The provider is not part of the key, because an upstream accepts sessions of one provider only. A subject or session has an
/// entry only while its calls are in progress.
package struct UpstreamShares: Sendable {
    /// The reason why a call is refused.
    package enum Refusal: Error, Sendable, Equatable {
        /// The subject or session has used up its share.
        case shareIsTaken
        /// The upstream's whole limit is used up.
        case allAreTaken
    }

    /// The largest number of calls in progress to the upstream.
    package let limit: Int
    /// The largest number of calls in progress of one subject.
    package let limitPerSubject: Int
    /// The largest number of calls in progress of one session.
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

    /// Counts a call as in progress; throws the reason if a limit is used up.
    package mutating func take(_ subject: String, _ session: SessionHandle) throws(Refusal) {
        let (ofSubject, ofSession) = (subjects[subject] ?? 0, sessions[session] ?? 0)
        guard ofSubject < limitPerSubject, ofSession < limitPerSession else { throw .shareIsTaken }
        guard count < limit else { throw .allAreTaken }
        count += 1
        subjects[subject] = ofSubject + 1
        sessions[session] = ofSession + 1
    }

    /// Notes that a counted call has ended.
    package mutating func giveBack(_ subject: String, _ session: SessionHandle) {
        guard let ofSubject = subjects[subject], let ofSession = sessions[session] else { return }
        count -= 1
        subjects[subject] = ofSubject > 1 ? ofSubject - 1 : nil
        sessions[session] = ofSession > 1 ? ofSession - 1 : nil
    }
}
