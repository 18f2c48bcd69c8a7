import Synchronization

/// What this process remembers of refreshes for a short time: which run beside, which failed just now, and which claims
/// were taken over.
///
/// Losing it costs a call, never a session.
package final class RefreshMemory: Sendable {
    private struct State {
        var running: [Digest: Duration] = [:]
        var backOff: [Digest: Duration] = [:]
        var takenOver: [Key: Duration] = [:]
    }

    private struct Key: Hashable {
        let session: Digest
        let version: Int64
    }

    private static let capacity = 20_000
    /// Guards the three tables; each is emptied when it grows past its capacity.
    private let state = Mutex(State())

    package init() {}

    /// Notes that a refresh of this session runs beside; false when one does already.
    func begin(_ session: Digest, at moment: Duration) -> Bool {
        state.withLock { state in
            if let since = state.running[session], moment - since < .seconds(30) { return false }
            if let until = state.backOff[session], moment < until { return false }
            if state.running.count >= Self.capacity { state.running = [:] }
            state.running[session] = moment
            return true
        }
    }

    func finish(_ session: Digest) { state.withLock { $0.running[session] = nil } }

    /// Returns how long a session's refresh is still held back, or nil.
    func backOff(_ session: Digest, at moment: Duration) -> Duration? {
        state.withLock { state in
            guard let until = state.backOff[session] else { return nil }
            guard moment < until else {
                state.backOff[session] = nil
                return nil
            }
            return until - moment
        }
    }

    func holdBack(_ session: Digest, until moment: Duration) {
        state.withLock { state in
            if state.backOff.count >= Self.capacity { state.backOff = [:] }
            state.backOff[session] = moment
        }
    }

    /// Returns since when this process knows that a claim of this version was taken over, noting it when it is new.
    func takenOver(_ session: Digest, version: Int64, at moment: Duration) -> Duration {
        state.withLock { state in
            let key = Key(session: session, version: version)
            if let since = state.takenOver[key] { return since }
            if state.takenOver.count >= Self.capacity { state.takenOver = [:] }
            state.takenOver[key] = moment
            return moment
        }
    }
}
