import Broker

/// An app that listens to the events of its session.
final class SessionListener: @unchecked Sendable {
    let process: SimulatedProcess
    let session: Digest
    private(set) var hasHeard = false
    private var subscription: Subscription?

    var isHeld: Bool { subscription != nil }

    /// Listens to a session's events; for a child, the parent's end counts as the child's end.
    init(_ process: SimulatedProcess, _ session: Digest, childOf parent: Digest? = nil) {
        self.process = process
        self.session = parent ?? session
        subscription = process.sessionNotices?.subscribe(session, of: session, limit: .max, version: 1, parent: parent)
        {
            [weak self] notice in
            if case .ended = notice { self?.hasHeard = true }
        }
    }

    func leave() { subscription = nil }
}
