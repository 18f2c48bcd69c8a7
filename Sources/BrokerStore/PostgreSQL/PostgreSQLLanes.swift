import Broker

/// The connections of a store: some for single reads, some for writes, one for several rows, one for many.
///
/// What walks many rows may take seconds. Where there are three or four connections in all, the last two are one.
final class PostgreSQLLanes: Sendable {
    /// The fewest connections that do.
    static let fewest = 3
    /// So many single reads wait for one connection before another is woken: half of what it takes at a time.
    private static let gathering = 32

    let points: PipelineLane
    let writes: PipelineLane
    let scans: PipelineLane
    let walks: PipelineLane
    let observer: ConnectionObserver
    private let ticker: StoreTicker

    var all: [PipelineLane] { [points, writes, scans] + (walks === scans ? [] : [walks]) }

    /// Starts the connections; nil when the system has no descriptors or threads left.
    init?(_ settings: ConnectionSettings, connections: Int, ticker: StoreTicker) {
        let total = max(connections, Self.fewest)
        let observer = ConnectionObserver()
        let reading = max(total / 4, 1)
        func lane(_ count: Int, gathering: Int = 0) -> PipelineLane? {
            let wakeups = (0..<count).compactMap { _ in Wakeup() }
            guard wakeups.count == count else { return nil }
            return PipelineLane(wakeups: wakeups, gathering: gathering, monotonic: MonotonicTime.now) {
                // A connection that stands looks after the queue itself; one that is silent does not.
                if gathering > 0 || observer.standing < total { ticker.signal() }
            }
        }
        // Two for writes come first: a row that somebody holds keeps one of them.
        let isApart = total - reading > 3
        guard let points = lane(reading, gathering: Self.gathering),
            let writes = lane(total - reading - (isApart ? 2 : 1)), let scans = lane(1),
            let walks = isApart ? lane(1) : scans
        else { return nil }
        (self.points, self.writes, self.scans, self.walks) = (points, writes, scans, walks)
        (self.observer, self.ticker) = (observer, ticker)
        var number = 0
        for lane in all {
            var limits = ConnectionMachine.Limits()
            if lane === points {
                // The next batch goes when the one before is answered: until then it grows.
                limits.depth = 64
                limits.batch = 64
            } else {
                // Through a pooler one transaction at a time: it hands the server's connection back at each sync.
                limits.depth = settings.isPooled ? 1 : 8
            }
            for index in lane.connections {
                let id = number
                number += 1
                let began = OSThread.start { [limits] in
                    lane.serve(index, settings, id: id, limits: limits, observer: observer)
                }
                guard began else { return nil }
            }
        }
        ticker.watch(all)
    }

    func close() async {
        for lane in all { await lane.close() }
        ticker.close()
    }
}
