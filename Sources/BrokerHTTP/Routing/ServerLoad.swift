import Synchronization

/// The count of the work in progress on the listeners of this process, for a shutdown that waits for this work to end.
package final class ServerLoad: Sendable {
    private let answering = Atomic<Int>(0)
    private let streaming = Atomic<Int>(0)
    private let draining = Atomic<Bool>(false)

    /// The memory of the request bodies of sessions.
    let bodies = HeldBodies()

    package init() {}

    /// The number of requests being served; a relayed request counts until the last byte of its answer.
    package var requests: Int { answering.load(ordering: .relaxed) }

    /// The number of open event streams.
    package var streams: Int { streaming.load(ordering: .relaxed) }

    /// Whether the process is shutting down.
    ///
    /// Answers then ask their clients to use another connection.
    package var isDraining: Bool { draining.load(ordering: .relaxed) }

    /// Begins to ask clients to use other connections, so that few remain when the listeners drain.
    package func drains() { draining.store(true, ordering: .relaxed) }

    func requestBegan() { answering.add(1, ordering: .relaxed) }
    func requestEnded() { answering.subtract(1, ordering: .relaxed) }
    func streamBegan() { streaming.add(1, ordering: .relaxed) }
    func streamEnded() { streaming.subtract(1, ordering: .relaxed) }
}
