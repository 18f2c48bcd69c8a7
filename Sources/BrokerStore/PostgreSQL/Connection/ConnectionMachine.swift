/// The life of one connection that pipelines: what happened goes in, what to do comes out.
///
/// Nothing of libpq, threads or clocks is in it. Each operation ends with a sync of its own, so that one that fails takes
/// none of its neighbours along, and an operation is answered only when its sync was: before that nothing is committed.
struct ConnectionMachine {
    /// Names an operation on this connection.
    typealias Ticket = UInt64

    enum Event: Equatable {
        case begin
        case connected
        case connectFailed
        /// Something woke the thread, or time went by.
        case ticked
        case sent(Ticket, isWrite: Bool)
        /// The first operation's last statement is through; its commit is not.
        case completed
        /// The first operation failed.
        case failed(ServerFault)
        /// The server warned that what it commits may not be on the standby.
        case warned
        /// The first operation's end.
        case synced
        case lost
        /// Nothing more will be asked.
        case close
    }

    enum Action: Equatable {
        case connect
        case disconnect
        /// Takes at most so many operations that wait and sends them.
        case take(Int)
        case answer(Ticket, Verdict)
        case finish
    }

    /// What became of an operation.
    enum Verdict: Equatable {
        case done
        case refused(ServerFault)
        /// Perhaps it was done.
        case inDoubt
        /// Surely nothing was done, or nothing that matters: it can be asked again.
        case notDone
    }

    struct Limits: Equatable {
        /// How many operations are under way at most.
        var depth = 32
        /// With so many under way, or fewer, more are taken.
        var refill = 0
        /// How long the server may be silent.
        var answerWithin = Duration.seconds(6)
        var firstPause = Duration.milliseconds(50)
        var longestPause = Duration.seconds(2)
    }

    private enum Phase: Equatable {
        case new, connecting, ready, finished
        case resting(until: Duration)
    }

    private struct Operation {
        let ticket: Ticket
        let isWrite: Bool
        var isCompleted = false
        var isWarned = false
        var fault: ServerFault?
    }

    private let limits: Limits
    private var phase = Phase.new
    private var underWay: [Operation] = []
    /// When the server was last heard, or first asked.
    private var progressAt = Duration.zero
    private var failures = 0
    /// A connection that is to go when nothing is under way any more.
    private var isSpent = false
    private var isClosing = false

    init(_ limits: Limits = Limits()) { self.limits = limits }

    /// How many operations are under way.
    var count: Int { underWay.count }
    var isReady: Bool { phase == .ready }

    /// When the next `ticked` is due without anything happening; nil when never.
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
        case .sent(let ticket, let isWrite):
            guard phase == .ready else { return [.answer(ticket, .notDone)] }
            if underWay.isEmpty { progressAt = now }
            underWay.append(Operation(ticket: ticket, isWrite: isWrite))
            return []
        case .completed: return note(at: now) { $0.isCompleted = true }
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

    private mutating func note(at now: Duration, _ change: (inout Operation) -> Void) -> [Action] {
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
        let operation = underWay.removeFirst()
        let verdict: Verdict
        switch operation.fault {
        case nil: verdict = operation.isWarned && operation.isWrite ? .inDoubt : .done
        case let fault? where fault.kind == .reconnect:
            isSpent = true
            verdict = .notDone
        case let fault?: verdict = .refused(fault)
        }
        return [.answer(operation.ticket, verdict)] + more()
    }

    /// The connection is gone, or as good as gone.
    private mutating func lost(at now: Duration) -> [Action] {
        guard phase == .ready else { return [] }
        // One that failed did nothing; where the server broke it off, those behind it were not begun.
        let first = underWay.first
        let isBrokenOff = first?.fault?.kind == .reconnect && first?.isCompleted == false
        let answers = underWay.map { operation in
            let isDone = operation.isWrite && !isBrokenOff && (operation.fault == nil || operation.isCompleted)
            return Action.answer(operation.ticket, isDone ? .inDoubt : .notDone)
        }
        underWay = []
        return answers + [.disconnect] + rest(at: now)
    }

    private mutating func more() -> [Action] {
        if underWay.isEmpty {
            if isClosing { return [.disconnect] + end() }
            if isSpent { return [.disconnect] + connect() }
        }
        guard !isSpent, !isClosing, underWay.count <= limits.refill, underWay.count < limits.depth else { return [] }
        return [.take(limits.depth - underWay.count)]
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
