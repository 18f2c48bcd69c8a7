import Broker

/// An app that listens to the event stream of its session.
final class SessionListener: @unchecked Sendable {
    let process: SimulatedProcess
    let session: Digest
    private(set) var hasHeard = false
    private var subscription: Subscription?

    var isHeld: Bool { subscription != nil }

    /// Begins to listen to a session's events.
    ///
    /// If the session is a child, the end of its parent counts as its own end.
    init(_ process: SimulatedProcess, _ session: Digest, childOf parent: Digest? = nil) {
        self.process = process
        self.session = parent ?? session
        subscription = process.sessionNotices?.subscribe(session, of: session, limit: .max, version: 1, parent: parent)
        {
            [weak self] notice in
            let world = process.world
            world.ports?.add(
                "\(world.scheduler.now) \(process.number) notice: \(TraceWords(vault: world.vault).of(notice, of: session))"
            )
            if case .ended = notice { self?.hasHeard = true }
        }
    }

    func leave() { subscription = nil }
}
