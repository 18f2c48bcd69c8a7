/// The connections of a store, in four groups: for single reads, for writes, for scans of several rows, and for walks over many
/// rows.
///
/// A walk over many rows may take seconds. With three or four connections in total, scans and walks share one connection.
final class PostgreSQLLanes: Sendable {
    /// The smallest number of connections with which the store works.
    static let fewest = 3
    /// The number of single reads, half of a batch, that may wait for awake connections before another connection is woken.
    private static let gathering = 32

    let points: PipelineLane
    let writes: PipelineLane
    let scans: PipelineLane
    let walks: PipelineLane
    let observer: ConnectionObserver
    private let ticker: StoreTicker

    var all: [PipelineLane] { [points, writes, scans] + (walks === scans ? [] : [walks]) }

    /// Starts the connections; nil if the system has no descriptors or threads left.
    init?(_ settings: ConnectionSettings, connections: Int, ticker: StoreTicker) {
        let total = max(connections, Self.fewest)
        let observer = ConnectionObserver()
        let reading = max(total / 4, 1)
        func lane(_ count: Int, gathering: Int = 0) -> PipelineLane? {
            let wakeups = (0..<count).compactMap { _ in Wakeup() }
            guard wakeups.count == count else { return nil }
            return PipelineLane(wakeups: wakeups, gathering: gathering, monotonic: MonotonicTime.now) {
                // Signal the ticker only if jobs may be overlooked. If all connections are open and the lane does not gather
                // jobs, each job wakes a connection itself.
                if gathering > 0 || observer.standing < total { ticker.signal() }
            }
        }
        // At least two connections write, because a write that waits for a locked row occupies one of them.
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
                // One batch is in progress at a time. Further reads gather until the batch is answered, and then make the
                // next batch.
                limits.depth = 64
                limits.batch = 64
            } else {
                // Through a pooler, only one transaction at a time is sent, because the pooler may change the server
                // connection after each sync.
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
