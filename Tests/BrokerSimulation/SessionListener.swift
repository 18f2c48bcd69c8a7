import Broker

/// An app that listens to what happens to its session.
final class SessionListener: @unchecked Sendable {
    let process: SimulatedProcess
    let session: Digest
    private(set) var hasHeard = false
    private var subscription: Subscription?

    var isHeld: Bool { subscription != nil }

    init(_ process: SimulatedProcess, _ session: Digest) {
        self.process = process
        self.session = session
        subscription = process.sessionNotices?.subscribe(session, of: session, limit: .max, version: 1) {
            [weak self] notice in
            if case .ended = notice { self?.hasHeard = true }
        }
    }

    func leave() { subscription = nil }
}
