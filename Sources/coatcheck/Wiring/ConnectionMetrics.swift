import Broker
import BrokerWire
import Synchronization

/// Counts the connections that are turned away, and names once a minute whose they were.
struct ConnectionMetrics: Sendable {
    /// The owner of the limit that a connection met.
    enum Reason: String, CaseIterable {
        /// Its address's, or its IPv6 /64's.
        case address
        /// Its IPv6 /56's.
        case customer
        /// Its IPv6 /48's.
        case network
        /// Everybody's: it waits until another ends.
        case all
    }

    private static let name = "coatcheck_connections_refused_total"

    private let log: ProcessLog
    private let metrics: MetricsRegistry
    /// The addresses and networks that were named this minute.
    private let named: AddressLines
    private let isFullNamed: AddressLines

    init(log: ProcessLog, metrics: MetricsRegistry, monotonic: @escaping @Sendable () -> Duration) {
        self.log = log
        self.metrics = metrics
        named = AddressLines(window: .seconds(60), capacity: 64, monotonic: monotonic)
        isFullNamed = AddressLines(window: .seconds(60), capacity: 1, monotonic: monotonic)
        // An alert does not see the first event of a counter that begins with it.
        for reason in Reason.allCases { _ = metrics.counter(Self.name, [("reason", reason.rawValue)]) }
    }

    /// Takes note of a connection that was closed because its address or its network has enough of them.
    func refused(_ address: PeerAddress, _ limit: PeerPolicy.Key) {
        let reason = Self.reason(limit)
        count(reason)
        let client = Self.text(limit)
        switch named.line(for: client) {
        case .none: break
        case .one:
            log.write(
                .warning, "connections are turned away",
                [
                    ("reason", reason.rawValue), ("client", client),
                    ("detail", "it has as many as it may; a proxy of yours belongs into server.trusted_proxies"),
                ])
        case .manyMore: log.write(.warning, "connections of more addresses are turned away")
        }
    }

    /// Takes note that there are as many connections as there may be.
    func isFull() {
        count(.all)
        guard isFullNamed.line(for: "all") == .one else { return }
        log.write(
            .warning, "connections have to wait",
            [("reason", Reason.all.rawValue), ("detail", "there are as many as there may be: half of the descriptors")])
    }

    private func count(_ reason: Reason) {
        metrics.counter(Self.name, [("reason", reason.rawValue)]).increment(by: 1)
    }

    private static func reason(_ limit: PeerPolicy.Key) -> Reason {
        switch limit.prefix {
        case 56: .customer
        case 48: .network
        default: .address
        }
    }

    private static func text(_ limit: PeerPolicy.Key) -> String {
        let address = IPAddress(high: limit.address.high, low: limit.address.low)
        return address.isIPv4 ? address.description : "\(address)/\(limit.prefix)"
    }
}

/// Remembers for which addresses a line was written in this window, so that each is named once in it.
///
/// Bounded: of more addresses than it can hold the rest share one line.
final class AddressLines: Sendable {
    /// The lines to write.
    enum Line: Equatable { case none, one, manyMore }

    private struct State {
        var since = Duration.zero
        var seen: Set<String> = []
    }

    private let window: Duration
    private let capacity: Int
    private let monotonic: @Sendable () -> Duration
    /// Guards what was written in this window.
    private let state: Mutex<State>

    init(window: Duration, capacity: Int, monotonic: @escaping @Sendable () -> Duration) {
        self.window = window
        self.capacity = capacity
        self.monotonic = monotonic
        state = Mutex(State(since: monotonic()))
    }

    /// Returns what to write about an address that was met now.
    func line(for address: String) -> Line {
        let now = monotonic()
        return state.withLock { state in
            if now - state.since >= window { state = State(since: now) }
            guard state.seen.count <= capacity, state.seen.insert(address).inserted else { return .none }
            return state.seen.count <= capacity ? .one : .manyMore
        }
    }
}
