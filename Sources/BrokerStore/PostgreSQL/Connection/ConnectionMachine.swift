/// The state machine of one pipelining connection, which turns events into actions.
///
/// The machine is free of libpq, threads and clocks. Each write ends with its own sync, so a failed write leaves other writes
/// unaffected. A write is answered after the server has answered its sync, because the sync commits the write. Reads that are
/// sent together share a sync. If one of them fails, the server skips the reads behind it, and these are sent again.
struct ConnectionMachine {
    /// The number of an operation on this connection.
    typealias Ticket = UInt64

    enum Event: Equatable {
        case begin
        case connected
        case connectFailed
        /// Something woke the thread, or time passed.
        case ticked
        /// Operations were sent, followed by one sync.
        ///
        /// A write has a batch of its own.
        case sent([Ticket], isWrite: Bool)
        /// The last statement of the oldest unfinished operation succeeded.
        ///
        /// The operation is committed only by the following sync.
        case completed
        /// The oldest unfinished operation failed.
        case failed(ServerFault)
        /// The server warned that the standby may lack this commit.
        case warned
        /// The server answered the sync of the oldest batch.
        case synced
        case lost
        /// The lane is closed, so this connection gets no more operations.
        case close
    }

    enum Action: Equatable {
        case connect
        case disconnect
        /// Take at most this many waiting operations from the lane, and send them.
        case take(Int)
        case answer(Ticket, Verdict)
        case finish
    }

    /// The result of an operation that could not be completed normally.
    enum Verdict: Equatable {
        case done
        case refused(ServerFault)
        /// It is unknown whether the server executed the operation.
        case inDoubt
        /// The operation changed nothing that matters, so it can be sent again.
        case notDone
    }

    struct Limits: Equatable {
        /// The highest number of operations in progress.
        var depth = 32
        /// The number of operations in progress at or below which the connection takes further operations from the lane.
        var refill = 0
        /// The number of reads that share a sync.
        var batch = 1
        /// The longest time that the server may be silent before the connection counts as lost.
        var answerWithin = Duration.seconds(6)
        var firstPause = Duration.milliseconds(50)
        var longestPause = Duration.seconds(2)
    }

    private enum Phase: Equatable {
        case new, connecting, ready, finished
        case resting(until: Duration)
    }

    /// Operations that were sent with one sync behind them.
    private struct Batch {
        let tickets: [Ticket]
        let isWrite: Bool
        /// The number of completed operations.
        var completed = 0
        var isWarned = false
        var fault: ServerFault?

        /// Whether the server certainly changed nothing: it reported the failure itself, before the commit.
        var cameToNothing: Bool { completed == 0 && fault?.leavesDoubt == false }
    }

    private let limits: Limits
    private var phase = Phase.new
    private var underWay: [Batch] = []
    /// The time of the server's last answer, or of the first operation sent since then.
    private var progressAt = Duration.zero
    private var failures = 0
    /// Whether the connection is to be closed once all operations in progress are answered.
    private var isSpent = false
    private var isClosing = false

    init(_ limits: Limits = Limits()) { self.limits = limits }

    /// The number of operations in progress.
    var count: Int { underWay.reduce(0) { $0 + $1.tickets.count } }
    var isReady: Bool { phase == .ready }

    /// The time of the next `ticked`; nil if no `ticked` is due.
    var deadline: Duration? {
        switch phase {
        case .resting(let until): until
        case .ready where !underWay.isEmpty: progressAt + limits.answerWithin
        case .new, .connecting, .ready, .finished: nil
        }
    }

    mutating func handle(_ event: Event, at now: Duration) -> [Action] {
        switch event {
        case .begin:
            guard phase == .new else { return [] }
            return isClosing ? end() : connect()
        case .connected:
            guard phase == .connecting else { return [] }
            phase = .ready
            isSpent = false
            return isClosing ? [.disconnect] + end() : more()
        case .connectFailed:
            guard phase == .connecting else { return [] }
            return rest(at: now)
        case .ticked: return ticked(at: now)
        case .sent(let tickets, let isWrite):
            guard phase == .ready else { return tickets.map { .answer($0, .notDone) } }
            if underWay.isEmpty { progressAt = now }
            underWay.append(Batch(tickets: tickets, isWrite: isWrite))
            return []
        case .completed: return note(at: now) { $0.completed += 1 }
        case .failed(let fault): return note(at: now) { $0.fault = $0.fault ?? fault }
        case .warned: return note(at: now) { $0.isWarned = true }
        case .synced: return synced(at: now)
        case .lost: return lost(at: now)
        case .close:
            isClosing = true
            switch phase {
            case .new, .resting: return end()
            case .ready: return underWay.isEmpty ? [.disconnect] + end() : []
            case .connecting, .finished: return []
            }
        }
    }

    private mutating func note(at now: Duration, _ change: (inout Batch) -> Void) -> [Action] {
        progressAt = now
        if !underWay.isEmpty { change(&underWay[0]) }
        return []
    }

    private mutating func ticked(at now: Duration) -> [Action] {
        switch phase {
        case .resting(let until): return now >= until ? connect() : []
        case .ready:
            if !underWay.isEmpty, now - progressAt >= limits.answerWithin { return lost(at: now) }
            return more()
        case .new, .connecting, .finished: return []
        }
    }

    private mutating func synced(at now: Duration) -> [Action] {
        guard phase == .ready, !underWay.isEmpty else { return lost(at: now) }
        progressAt = now
        failures = 0
        let batch = underWay.removeFirst()
        guard let fault = batch.fault else {
            let verdict = batch.isWarned && batch.isWrite ? Verdict.inDoubt : .done
            return batch.tickets.map { .answer($0, verdict) } + more()
        }
        isSpent = isSpent || fault.kind == .reconnect
        if batch.isWrite, fault.leavesDoubt { return batch.tickets.map { .answer($0, .inDoubt) } + more() }
        // In a failed batch, the reads before the failure have valid results. A write has no result, because it was not
        // committed.
        let kept = batch.isWrite ? 0 : batch.completed
        let answers = batch.tickets.enumerated().map { index, ticket in
            let refusal = index == kept && fault.kind != .reconnect ? Verdict.refused(fault) : .notDone
            return Action.answer(ticket, index < kept ? .done : refusal)
        }
        return answers + more()
    }

    /// Handles a connection that is lost, or whose server is silent.
    private mutating func lost(at now: Duration) -> [Action] {
        guard phase == .ready else { return [] }
        // If the oldest operation failed and the server then ended the connection, the server skipped all operations behind
        // it. So none of them can have taken effect.
        let isBrokenOff = underWay.first.map { $0.cameToNothing && $0.fault?.endsConnection == true } ?? false
        let answers = underWay.flatMap { batch in
            let mayBeDone = batch.isWrite && !isBrokenOff && !batch.cameToNothing
            return batch.tickets.map { Action.answer($0, mayBeDone ? .inDoubt : .notDone) }
        }
        underWay = []
        return answers + [.disconnect] + rest(at: now)
    }

    private mutating func more() -> [Action] {
        if underWay.isEmpty {
            if isClosing { return [.disconnect] + end() }
            if isSpent { return [.disconnect] + connect() }
        }
        let count = count
        guard !isSpent, !isClosing, count <= limits.refill, count < limits.depth else { return [] }
        return [.take(limits.depth - count)]
    }

    private mutating func connect() -> [Action] {
        phase = .connecting
        return [.connect]
    }

    private mutating func rest(at now: Duration) -> [Action] {
        if isClosing { return end() }
        let pause = min(limits.firstPause * (1 << min(failures, 10)), limits.longestPause)
        failures += 1
        phase = .resting(until: now + pause)
        return []
    }

    private mutating func end() -> [Action] {
        phase = .finished
        return [.finish]
    }
}
