import Broker
import BrokerWire
import Synchronization

/// Counts refused connections, and logs their addresses, at most once a minute for each address.
struct ConnectionMetrics: Sendable {
    /// The limit that a connection reached.
    enum Reason: String, CaseIterable {
        /// The limit of the address, or of its IPv6 /64.
        case address
        /// The limit of the address's IPv6 /56.
        case customer
        /// The limit of the address's IPv6 /48.
        case network
        /// The limit on all connections together.
        ///
        /// A connection beyond this limit waits until another connection ends.
        case all
    }

    private static let name = "coatcheck_connections_refused_total"

    private let log: ProcessLog
    private let metrics: MetricsRegistry
    /// The addresses and networks for which a line was logged in this minute.
    private let named: AddressLines
    private let isFullNamed: AddressLines

    init(log: ProcessLog, metrics: MetricsRegistry, monotonic: @escaping @Sendable () -> Duration) {
        self.log = log
        self.metrics = metrics
        named = AddressLines(window: .seconds(60), capacity: 64, monotonic: monotonic)
        isFullNamed = AddressLines(window: .seconds(60), capacity: 1, monotonic: monotonic)
        // Create the counters at zero. If the first event created a counter, an alert on an increase would miss this event.
        for reason in Reason.allCases { _ = metrics.counter(Self.name, [("reason", reason.rawValue)]) }
    }

    /// Counts and logs a connection that was closed because its address or network had reached its limit.
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

    /// Counts and logs that the limit on all connections was reached.
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

/// Remembers the addresses for which a line was logged in the current interval, so that each address gets one line.
///
/// The number of addresses is limited. All further addresses share one line.
final class AddressLines: Sendable {
    /// The line to write: none, one about the address, or one that reports further addresses.
    enum Line: Equatable { case none, one, manyMore }

    private struct State {
        var since = Duration.zero
        var seen: Set<String> = []
    }

    private let window: Duration
    private let capacity: Int
    private let monotonic: @Sendable () -> Duration
    /// Guards the addresses of the current interval.
    private let state: Mutex<State>

    init(window: Duration, capacity: Int, monotonic: @escaping @Sendable () -> Duration) {
        self.window = window
        self.capacity = capacity
        self.monotonic = monotonic
        state = Mutex(State(since: monotonic()))
    }

    /// Returns the line to write now for an address.
    func line(for address: String) -> Line {
        let now = monotonic()
        return state.withLock { state in
            if now - state.since >= window { state = State(since: now) }
            guard state.seen.count <= capacity, state.seen.insert(address).inserted else { return .none }
            return state.seen.count <= capacity ? .one : .manyMore
        }
    }
}
