import Broker
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
    func take(for session: LiveSession, on client: UpstreamClient) throws(BrokerProblem) -> Place {
        let (subject, handle) = (session.facts.subject, session.row.handle)
        let refusal: UpstreamShares.Refusal? = shares.withLock { shares in
            do throws(UpstreamShares.Refusal) {
                try shares.take(subject, handle)
                return nil
            } catch { return error }
        }
        switch refusal {
        case nil: return Place(concurrency: self, subject: subject, handle: handle, client: client)
        case .shareIsTaken:
            throw BrokerProblem(
                .rateLimited, detail: "Too many of this user's calls to this upstream are under way.",
                retryAfter: .seconds(1))
        case .allAreTaken: throw BrokerProblem(.upstreamBusy, retryAfter: .seconds(1))
        }
    }

    /// How many are taken.
    var count: Int { shares.withLock(\.count) }

    /// A place that was taken.
    final class Place: Sendable {
        private let concurrency: UpstreamConcurrency
        private let subject: String
        private let handle: SessionHandle
        private let client: UpstreamClient

        fileprivate init(
            concurrency: UpstreamConcurrency, subject: String, handle: SessionHandle, client: UpstreamClient
        ) {
            self.concurrency = concurrency
            self.subject = subject
            self.handle = handle
            self.client = client
        }

        deinit { concurrency.shares.withLock { $0.giveBack(subject, handle) } }
    }
}
