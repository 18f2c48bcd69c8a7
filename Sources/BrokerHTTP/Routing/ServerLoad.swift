import Synchronization

/// How much is under way on the listeners of this process, for whoever waits until it is over.
package final class ServerLoad: Sendable {
    private let answering = Atomic<Int>(0)
    private let streaming = Atomic<Int>(0)
    private let draining = Atomic<Bool>(false)

    /// What relayed bodies on their way keep in memory.
    let bodies = HeldBodies()

    package init() {}

    /// The requests that are being served, relayed bodies to their last byte.
    package var requests: Int { answering.load(ordering: .relaxed) }

    /// The open event streams.
    package var streams: Int { streaming.load(ordering: .relaxed) }

    /// Whether the process is on its way out: answers ask their clients for another connection.
    package var isDraining: Bool { draining.load(ordering: .relaxed) }

    /// Begins to ask clients for other connections, so that few are left when the listeners drain.
    package func drains() { draining.store(true, ordering: .relaxed) }

    func requestBegan() { answering.add(1, ordering: .relaxed) }
    func requestEnded() { answering.subtract(1, ordering: .relaxed) }
    func streamBegan() { streaming.add(1, ordering: .relaxed) }
    func streamEnded() { streaming.subtract(1, ordering: .relaxed) }
}
