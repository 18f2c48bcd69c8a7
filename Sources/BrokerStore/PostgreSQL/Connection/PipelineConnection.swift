import Broker
import CLibPQ

/// Drives a `ConnectionMachine`: one thread, one libpq connection in pipeline mode, and the lane that it serves.
final class PipelineConnection {
    private static let readable: Int16 = 1
    private static let writable: Int16 = 4
    /// The number of statements after which the server is asked to make new plans for all statements.
    ///
    /// A plan that was made for small tables reads too much after the tables have grown (decision 38).
    private static let planLife = 500
    private static let forgettingPlans = "DISCARD PLANS"

    private struct Sent {
        let ticket: ConnectionMachine.Ticket
        /// The ticket of the first operation in the batch; all operations of a batch share one sync.
        let batch: ConnectionMachine.Ticket
        let job: any PipelineJob
        /// The number of results before the result of the operation's last statement.
        var before: Int
        /// The names of the statements that this operation prepares, each with the index of its result.
        var preparing: [(result: Int, name: String)]
        var seen = 0
    }

    private let settings: ConnectionSettings
    private let lane: PipelineLane
    /// The connection's number within the lane, and among all connections.
    private let number: Int
    private let id: Int
    private let wakeup: Wakeup
    private let observer: ConnectionObserver
    private var machine: ConnectionMachine
    private var connection: LibPQConnection?
    /// The names of the statements that the server has prepared, or will have prepared before the next operation.
    private var prepared: Set<String> = []
    /// The number of statements sent since the last `DISCARD PLANS`.
    private var planned = 0
    /// Whether the server supports `DISCARD PLANS` and it is necessary.
    ///
    /// Through a pooler the value is false, because plans are never kept there.
    private var replans = false
    private var sent: [Sent] = []
    /// The index in `sent` of the operation that the next result belongs to.
    private var next = 0
    private let batch: Int
    private var nextTicket: ConnectionMachine.Ticket = 0
    private var isFinished = false
    private var isLost = false

    init(
        _ settings: ConnectionSettings, lane: PipelineLane, number: Int, id: Int, wakeup: Wakeup,
        limits: ConnectionMachine.Limits, observer: ConnectionObserver
    ) {
        self.id = id
        self.settings = settings
        self.lane = lane
        self.number = number
        self.wakeup = wakeup
        self.observer = observer
        batch = limits.batch
        machine = ConnectionMachine(limits)
    }

    /// Sends the lane's jobs and reads their results, until the lane is closed and all its jobs are answered.
    func run() {
        handle(.begin)
        while !isFinished {
            let now = lane.monotonic()
            if lane.expire(at: now), !machine.isReady { lane.rests(number) }
            if lane.isDrained {
                handle(.close)
                if isFinished { break }
            }
            wait(at: now)
            if connection != nil { receive() }
            if isLost {
                isLost = false
                handle(.lost)
            }
            handle(.ticked)
        }
        lane.ended()
    }

    private func handle(_ event: ConnectionMachine.Event) {
        for action in machine.handle(event, at: lane.monotonic()) { perform(action) }
    }

    private func perform(_ action: ConnectionMachine.Action) {
        switch action {
        case .connect: connect()
        case .disconnect:
            connection = nil
            prepared = []
            next = 0
            observer.changed(id, isUp: false)
            lane.rests(number)
        case .take(let limit): take(limit)
        case .answer(let ticket, let verdict): answer(ticket, verdict)
        case .finish: isFinished = true
        }
    }

    private func connect() {
        do throws(StoreOpenFailure) {
            let fresh = try LibPQConnection(settings, wakeup: wakeup)
            if !settings.isPooled {
                try fresh.execute(SessionSetup.sql, within: .seconds(3))
                // Another engine with PostgreSQL's protocol may lack the command, so try it one time.
                replans = (try? fresh.execute(Self.forgettingPlans, within: .seconds(3))) != nil
            }
            guard PQsetnonblocking(fresh.handle, 1) == 0, PQenterPipelineMode(fresh.handle) == 1 else {
                throw .unreachable("libpq has no pipeline mode")
            }
            // Drop the warnings from setting up, so that they are not taken for warnings about a commit.
            _ = fresh.notices.takeWarning()
            connection = fresh
            observer.changed(id, isUp: true)
            handle(.connected)
        } catch {
            observer.failed()
            handle(.connectFailed)
        }
    }

    private func wait(at now: Duration) {
        var events = Self.readable
        if let connection {
            switch PQflush(connection.handle) {
            case 0: break
            case 1: events |= Self.writable
            default: isLost = true
            }
        }
        // Do not wait on a lost connection, because it would never wake the thread.
        if isLost { return }
        // Without a connection, wait too, and return for a signal or the machine's deadline. The loop then fails jobs that
        // have waited too long.
        let limit = machine.deadline.map { max($0 - now, .zero) }
        _ = wakeup.wait(for: connection?.descriptor ?? -1, events: events, atMost: limit)
    }

    // MARK: Sending

    private func take(_ limit: Int) {
        var jobs = lane.take(limit, for: number)[...]
        while let first = jobs.first {
            let together = first.isWrite ? jobs.prefix(1) : jobs.prefix(batch).prefix { !$0.isWrite }
            send(together)
            jobs = jobs.dropFirst(together.count)
        }
    }

    /// Sends jobs followed by one sync.
    ///
    /// The request and the answer are meant to fit into one packet each.
    private func send(_ jobs: ArraySlice<any PipelineJob>) {
        guard let connection, !isLost else { return giveBack(jobs) }
        let batch = nextTicket
        var entries: [Sent] = []
        for job in jobs {
            guard let entry = send(job, batch, connection) else { return unsent(jobs) }
            entries.append(entry)
        }
        guard PQpipelineSync(connection.handle) == 1 else { return unsent(jobs) }
        sent += entries
        handle(.sent(entries.map(\.ticket), isWrite: entries.contains { $0.job.isWrite }))
    }

    private func send(
        _ job: any PipelineJob, _ batch: ConnectionMachine.Ticket, _ connection: LibPQConnection
    ) -> Sent? {
        var entry = Sent(ticket: nextTicket, batch: batch, job: job, before: -1, preparing: [])
        nextTicket += 1
        if replans, planned >= Self.planLife {
            guard forgetPlans(connection) else { return nil }
            entry.before += 1
        }
        for bound in job.statements {
            if !settings.isPooled, prepared.insert(bound.statement.name).inserted {
                guard prepare(bound.statement, connection) else { return nil }
                entry.before += 1
                entry.preparing.append((entry.before, bound.statement.name))
            }
            guard dispatch(bound, connection) else { return nil }
            entry.before += 1
            planned += 1
        }
        return entry
    }

    /// Returns jobs to the lane after their sync could not be sent.
    ///
    /// Without the sync, the server does not commit these jobs, so they can be sent again.
    private func unsent(_ jobs: ArraySlice<any PipelineJob>) {
        isLost = true
        giveBack(jobs)
    }

    /// Returns jobs to the front of the lane's queue, in their order.
    private func giveBack(_ jobs: ArraySlice<any PipelineJob>) { for job in jobs.reversed() { lane.giveBack(job) } }

    private func prepare(_ statement: Statement, _ connection: LibPQConnection) -> Bool {
        let types = statement.types.map(\.oid)
        return PQsendPrepare(connection.handle, statement.name, statement.sql, CInt(types.count), types) == 1
    }

    /// Asks the server to drop the plans of all prepared statements.
    private func forgetPlans(_ connection: LibPQConnection) -> Bool {
        planned = 0
        return PQsendQueryParams(connection.handle, Self.forgettingPlans, 0, nil, nil, nil, nil, 1) == 1
    }

    private func dispatch(_ bound: BoundStatement, _ connection: LibPQConnection) -> Bool {
        let values = bound.values.pairs.map { _, value in value.bytes }
        let formats = Array(repeating: CInt(1), count: values.count)
        let lengths = values.map { CInt(clamping: $0?.count ?? 0) }
        // An empty value needs an address too, because libpq reads a missing address as NULL.
        var bytes: [UInt8] = []
        for value in values { bytes += value ?? [] }
        bytes.append(0)
        return bytes.withUnsafeBytes { buffer in
            var pointers: [UnsafePointer<CChar>?] = []
            var offset = 0
            for value in values {
                guard let length = value?.count else {
                    pointers.append(nil)
                    continue
                }
                pointers.append(buffer.baseAddress.map { ($0 + offset).assumingMemoryBound(to: CChar.self) })
                offset += length
            }
            if settings.isPooled {
                let types = bound.statement.types.map(\.oid)
                return PQsendQueryParams(
                    connection.handle, bound.statement.sql, CInt(values.count), types, pointers, lengths, formats, 1)
                    == 1
            }
            return PQsendQueryPrepared(
                connection.handle, bound.statement.name, CInt(values.count), pointers, lengths, formats, 1) == 1
        }
    }

    // MARK: Receiving

    private func receive() {
        guard let connection, !isLost else { return }
        let isWell = PQconsumeInput(connection.handle) == 1
        // Results that arrived before the connection broke still count.
        collect(connection)
        if !isWell { isLost = true }
        if PQstatus(connection.handle) != CONNECTION_OK { isLost = true }
    }

    /// Reads the results that have arrived.
    private func collect(_ connection: LibPQConnection) {
        var empty = 0
        while !sent.isEmpty, !isLost, self.connection === connection, PQisBusy(connection.handle) == 0 {
            guard let result = PQgetResult(connection.handle) else {
                empty += 1
                // libpq returns one nil between two statements. More than two in a row mean that the connection is dead.
                if empty > 2 { break }
                continue
            }
            empty = 0
            defer { PQclear(result) }
            note(result, connection)
        }
    }

    /// Whether the next result belongs to an operation.
    ///
    /// Otherwise, only the answer to the batch's sync is missing.
    private var isNextDue: Bool { next < sent.count && sent[next].batch == sent[0].batch }

    private func note(_ result: OpaquePointer, _ connection: LibPQConnection) {
        switch PQresultStatus(result) {
        case PGRES_PIPELINE_SYNC:
            next = 0
            if connection.notices.takeWarning() { handle(.warned) }
            handle(.synced)
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK:
            guard isNextDue else { return isLost = true }
            let index = sent[next].seen
            sent[next].seen += 1
            if index == sent[next].before {
                sent[next].job.keep(ResultRows(result))
                next += 1
                handle(.completed)
            }
        case PGRES_PIPELINE_ABORTED: break
        default:
            // A fault without a code comes from libpq itself and means a broken connection.
            guard let state = PQresultErrorField(result, CInt(UInt8(ascii: "C"))) else { return isLost = true }
            let fault = ServerFault(state: String(cString: state))
            forgetPrepared(after: fault)
            handle(.failed(fault))
        }
    }

    /// Updates the set of prepared statements after an operation failed.
    private func forgetPrepared(after fault: ServerFault) {
        // A failure after the last statement belongs to the commit.
        guard isNextDue else { return }
        let failed = sent[next]
        for step in failed.preparing where step.result >= failed.seen { prepared.remove(step.name) }
        for behind in sent[(next + 1)...].prefix(while: { $0.batch == failed.batch }) {
            prepared.subtract(behind.preparing.map(\.name))
        }
        let names = failed.job.statements.map(\.statement.name)
        if fault.state == "26000" { prepared.subtract(names) }
        if fault.state == "42P05" { prepared.formUnion(names) }
    }

    private func answer(_ ticket: ConnectionMachine.Ticket, _ verdict: ConnectionMachine.Verdict) {
        guard let index = sent.firstIndex(where: { $0.ticket == ticket }) else { return }
        let job = sent.remove(at: index).job
        switch verdict {
        case .done: job.finish(nil)
        case .refused(let fault): job.finish(.server(fault))
        case .inDoubt: job.finish(.inDoubt)
        case .notDone: lane.giveBack(job)
        }
    }
}
