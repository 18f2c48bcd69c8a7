import Broker

/// The connection that notifies a process of sessions that ended or changed on other processes.
///
/// The connection may break unnoticed.
final class SimulatedNotices: @unchecked Sendable {
    /// The pause between two checks of the connection.
    static let pulse = 2_000

    private weak var process: SimulatedProcess?
    private let scheduler: Scheduler
    private var handler: (@Sendable (EndingNotice) -> Void)?
    /// The notices that the process has yet to take, in order.
    private var waiting: [(notice: EndingNotice, taken: () -> Void)] = []
    private var isConnected = false
    /// Counts connections, so that the events of an older one have no effect.
    private var connection = 0
    /// The moment when the process began to receive every notice; nil while the connection is broken.
    private(set) var hearsSince: Int?

    init(_ process: SimulatedProcess, _ scheduler: Scheduler) {
        self.process = process
        self.scheduler = scheduler
    }

    func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void) {
        self.handler = handler
        connect(after: 50)
    }

    /// Breaks the connection, which is made again when this time has passed and the process has noticed the loss.
    func breakOff(for milliseconds: Int) {
        guard handler != nil else { return }
        isConnected = false
        hearsSince = nil
        connection += 1
        let broken = connection
        let noticed = scheduler.random.number(0...Self.pulse)
        scheduler.after(noticed) { [self] in
            if connection == broken { deliver(.deaf) }
        }
        connect(after: max(milliseconds, noticed) + scheduler.random.number(1...1_000))
    }

    private func connect(after milliseconds: Int) {
        let awaited = connection
        scheduler.after(milliseconds) { [self] in
            guard connection == awaited, let process, !process.isDead else { return }
            guard process.storeAwayFor == 0 else { return connect(after: process.storeAwayFor + 100) }
            isConnected = true
            deliver(.hearing)
            hearsSince = scheduler.now
        }
    }

    /// Receives a notice from another process; `taken` is called once this process has acted on it.
    func hear(_ notice: EndingNotice, taken: @escaping () -> Void = {}) {
        if isConnected { deliver(notice, taken: taken) }
    }

    private func deliver(_ notice: EndingNotice, taken: @escaping () -> Void = {}) {
        waiting.append((notice, taken))
        process?.lane.start { [self] in
            guard process?.isDead == false, !waiting.isEmpty else { return }
            let next = waiting.removeFirst()
            handler?(next.notice)
            next.taken()
        }
    }
}
