import Broker
import BrokerHTTP
import BrokerStore

extension ProcessParts {
    /// What readiness knows without asking the store.
    var conditions: ManagementHealth.Conditions {
        var conditions = ManagementHealth.Conditions()
        conditions.keysFit = ringWatch.isGood
        conditions.keys = ringWatch.description
        conditions.foreignKeys = ringWatch.foreign
        conditions.clockAhead = context.watch.ahead
        conditions.drain = readiness.isDraining ? (requests: load.requests, streams: load.streams) : nil
        conditions.diskIsFull = disk.isFull
        guard let sqlite = store as? SQLiteStore else { return conditions }
        conditions.diskIsFull = conditions.diskIsFull || sqlite.isDiskFull
        conditions.pendingEndings = sqlite.pendingEndings
        if sqlite.keepsEndings {
            let unkept = sqlite.unkeptEndings
            conditions.endingsFile = unkept.reason ?? "ok"
            conditions.unkeptEndings = unkept.count
        }
        return conditions
    }
}
