import Broker
import CLibPQ

/// The shell round a `ConnectionMachine`: one thread, one libpq connection in pipeline mode, and the lane it works for.
final class PipelineConnection {
    private static let readable: Int16 = 1
    private static let writable: Int16 = 4

    private struct Sent {
        let ticket: ConnectionMachine.Ticket
        let job: any PipelineJob
        /// How many results come before the one of the last statement.
        var before: Int
        /// The names that are prepared on the way, in the order of their results.
        var preparing: [(result: Int, name: String)]
        var seen = 0
    }

    private let settings: ConnectionSettings
    private let lane: PipelineLane
    /// Its number in the lane, and among all connections.
    private let number: Int
    private let id: Int
    private let wakeup: Wakeup
    private let observer: ConnectionObserver
    private var machine: ConnectionMachine
    private var connection: LibPQConnection?
    /// The names of statements that are prepared, or will be by the time what is sent next arrives.
    private var prepared: Set<String> = []
    private var sent: [Sent] = []
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
        machine = ConnectionMachine(limits)
    }

    /// Works until the lane is closed and everything is answered.
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
            if !settings.isPooled { try fresh.execute(SessionSetup.sql, within: .seconds(3)) }
            guard PQsetnonblocking(fresh.handle, 1) == 0, PQenterPipelineMode(fresh.handle) == 1 else {
                throw .unreachable("libpq has no pipeline mode")
            }
            // What it warned of so far is of no operation.
            _ = fresh.notices.takeWarning()
            connection = fresh
            observer.changed(id, isUp: true)
            handle(.connected)
        } catch {
            observer.failed(error)
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
            if isLost { return }
        }
        // While jobs wait for a connection that is not there, somebody has to look at their patience.
        let limit = machine.deadline.map { max($0 - now, .zero) }
        _ = wakeup.wait(for: connection?.descriptor ?? -1, events: events, atMost: limit)
    }

    // MARK: Sending

    private func take(_ limit: Int) {
        for job in lane.take(limit, for: number) { send(job) }
    }

    private func send(_ job: any PipelineJob) {
        guard let connection, !isLost else { return lane.giveBack(job) }
        let ticket = nextTicket
        nextTicket += 1
        var entry = Sent(ticket: ticket, job: job, before: 0, preparing: [])
        var results = 0
        for bound in job.statements {
            if !settings.isPooled, prepared.insert(bound.statement.name).inserted {
                guard prepare(bound.statement, connection) else { return unsent(job) }
                entry.preparing.append((results, bound.statement.name))
                results += 1
            }
            guard dispatch(bound, connection) else { return unsent(job) }
            results += 1
        }
        guard PQpipelineSync(connection.handle) == 1 else { return unsent(job) }
        entry.before = results - 1
        sent.append(entry)
        handle(.sent(ticket, isWrite: job.isWrite))
    }

    /// A job whose sync did not go out was not committed.
    private func unsent(_ job: any PipelineJob) {
        isLost = true
        lane.giveBack(job)
    }

    private func prepare(_ statement: Statement, _ connection: LibPQConnection) -> Bool {
        let types = statement.types.map(\.oid)
        return PQsendPrepare(connection.handle, statement.name, statement.sql, CInt(types.count), types) == 1
    }

    private func dispatch(_ bound: BoundStatement, _ connection: LibPQConnection) -> Bool {
        let count = CInt(bound.values.count)
        let formats = Array(repeating: CInt(1), count: bound.values.count)
        let lengths = bound.values.map { CInt(clamping: $0.bytes?.count ?? 0) }
        // Empty values need an address too: without one they would be NULL.
        var bytes: [UInt8] = []
        for value in bound.values { bytes += value.bytes ?? [] }
        bytes.append(0)
        return bytes.withUnsafeBytes { buffer in
            var pointers: [UnsafePointer<CChar>?] = []
            var offset = 0
            for value in bound.values {
                guard let length = value.bytes?.count else {
                    pointers.append(nil)
                    continue
                }
                pointers.append(buffer.baseAddress.map { ($0 + offset).assumingMemoryBound(to: CChar.self) })
                offset += length
            }
            if settings.isPooled {
                let types = bound.statement.types.map(\.oid)
                return PQsendQueryParams(
                    connection.handle, bound.statement.sql, count, types, pointers, lengths, formats, 1) == 1
            }
            return PQsendQueryPrepared(
                connection.handle, bound.statement.name, count, pointers, lengths, formats, 1) == 1
        }
    }

    // MARK: Receiving

    private func receive() {
        guard let connection, !isLost else { return }
        let isWell = PQconsumeInput(connection.handle) == 1
        // What came before the end still counts.
        collect(connection)
        if !isWell { isLost = true }
        if PQstatus(connection.handle) != CONNECTION_OK { isLost = true }
    }

    /// Reads the results that have come.
    private func collect(_ connection: LibPQConnection) {
        var empty = 0
        while !sent.isEmpty, !isLost, self.connection === connection, PQisBusy(connection.handle) == 0 {
            guard let result = PQgetResult(connection.handle) else {
                empty += 1
                // Between two statements comes one; more than that is a connection that says nothing any more.
                if empty > 2 { break }
                continue
            }
            empty = 0
            defer { PQclear(result) }
            note(result, connection)
        }
    }

    private func note(_ result: OpaquePointer, _ connection: LibPQConnection) {
        guard !sent.isEmpty else { return }
        switch PQresultStatus(result) {
        case PGRES_PIPELINE_SYNC:
            if connection.notices.takeWarning() { handle(.warned) }
            handle(.synced)
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK:
            let index = sent[0].seen
            sent[0].seen += 1
            if index == sent[0].before {
                sent[0].job.keep(ResultRows(result))
                handle(.completed)
            }
        case PGRES_PIPELINE_ABORTED: sent[0].seen += 1
        default:
            sent[0].seen += 1
            // Without a code it is libpq that speaks, of a connection that broke.
            guard let state = PQresultErrorField(result, CInt(UInt8(ascii: "C"))) else { return isLost = true }
            let fault = ServerFault(state: String(cString: state))
            forgetPrepared(after: fault)
            handle(.failed(fault))
        }
    }

    /// Notes which statements are prepared after all, or are not, when the first operation failed.
    private func forgetPrepared(after fault: ServerFault) {
        let failed = sent[0].seen - 1
        for step in sent[0].preparing where step.result >= failed { prepared.remove(step.name) }
        let names = sent[0].job.statements.map(\.statement.name)
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
