import Broker

/// The connection that brings a process the notices about sessions that ended or changed at other processes.
///
/// The connection may break without the process noticing it.
final class SimulatedNotices: @unchecked Sendable {
    /// The time between two checks of the connection, in milliseconds.
    static let pulse = 2_000

    private weak var process: SimulatedProcess?
    private let scheduler: Scheduler
    private var handler: (@Sendable (EndingNotice) -> Void)?
    /// The notices that have arrived and that the process still has to act on, in order.
    private var waiting: [(notice: EndingNotice, taken: () -> Void)] = []
    private var isConnected = false
    /// The number of the present connection.
    ///
    /// Events of an earlier connection are recognised by their number and ignored.
    private var connection = 0
    /// The moment since when the process has received every notice; nil while the connection is broken.
    private(set) var hearsSince: Int?

    init(_ process: SimulatedProcess, _ scheduler: Scheduler) {
        self.process = process
        self.scheduler = scheduler
    }

    func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void) {
        self.handler = handler
        connect(after: 50)
    }

    /// Breaks the connection.
    ///
    /// The connection is made again when both the given time has passed and the process has noticed the break.
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

    /// Receives a notice from another process.
    ///
    /// `taken` is called when this process has acted on the notice.
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
