import Broker
import BrokerStore

/// The log-outs that restoring a backup loses, in words.
struct EndingsLoss: CustomStringConvertible {
    let description: String

    /// Creates it; nil where nothing is lost.
    init?(_ copy: DatabaseCopy, _ endings: EndingsSummary?, file: String?) {
        guard let last = copy.lastMoment else { return nil }
        let since = "log-outs since \(last.rfc3339), the last moment that the backup knows of,"
        guard let file else {
            description = "\(since) are lost: store.endings_file is not set"
            return
        }
        guard let endings else {
            description = "\(since) are lost: \(file) is not there"
            return
        }
        if endings.since > last {
            description = "\(since) are lost up to \(endings.since.rfc3339), when \(file) begins"
        } else if endings.damaged > 0 {
            description = "\(endings.damaged) lines of \(file) cannot be read: as many log-outs may be lost"
        } else {
            return nil
        }
    }
}
