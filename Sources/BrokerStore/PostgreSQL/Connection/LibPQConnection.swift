import CLibPQ

/// A connection through libpq, used by one thread at a time.
///
/// Each wait has a deadline, so a silent server cannot block the thread for long.
final class LibPQConnection {
    let handle: OpaquePointer
    let notices = NoticeSink()
    /// The SQLSTATE of the fault that `execute` threw last.
    private(set) var faultState: String?
    private let wakeup: Wakeup

    /// Connects to the server.
    ///
    /// The call blocks for up to `connect_timeout` for each host.
    init(_ settings: ConnectionSettings, wakeup: Wakeup) throws(StoreOpenFailure) {
        self.wakeup = wakeup
        let keywords = settings.parameters.map(\.keyword)
        let values = settings.parameters.map(\.value)
        let connection = Self.withStrings(keywords) { keywords in
            Self.withStrings(values) { values in PQconnectdbParams(keywords, values, 0) }
        }
        guard let connection else { throw .unreachable("no memory") }
        guard PQstatus(connection) == CONNECTION_OK else {
            let reason = Self.line(PQerrorMessage(connection))
            PQfinish(connection)
            throw .unreachable(reason)
        }
        handle = connection
        notices.attach(to: connection)
    }

    deinit { PQfinish(handle) }

    var descriptor: CInt { PQsocket(handle) }

    /// libpq's last error message as one line for the operator.
    var message: String { Self.line(PQerrorMessage(handle)) }

    /// Runs SQL commands in order and returns the text of the first row of the last result.
    ///
    /// Call this only on connections that are outside pipeline mode, to open, migrate and listen.
    @discardableResult
    func execute(_ sql: String, within limit: Duration) throws(StoreOpenFailure) -> [String?] {
        guard PQsendQuery(handle, sql) == 1 else { throw .unreachable(message) }
        let deadline = MonotonicTime.now() + limit
        var first: [String?] = []
        var fault: String?
        faultState = nil
        while true {
            while PQisBusy(handle) == 1 {
                let rest = deadline - MonotonicTime.now()
                guard rest > .zero else { throw .unreachable("no answer") }
                _ = wakeup.wait(for: descriptor, events: 1, atMost: rest)
                guard PQconsumeInput(handle) == 1 else { throw .unreachable(message) }
            }
            guard let result = PQgetResult(handle) else { break }
            switch PQresultStatus(result) {
            case PGRES_TUPLES_OK where PQntuples(result) > 0:
                first = (0..<PQnfields(result)).map { column in
                    guard PQgetisnull(result, 0, column) == 0 else { return nil }
                    return PQgetvalue(result, 0, column).map { String(cString: $0) }
                }
            case PGRES_TUPLES_OK, PGRES_COMMAND_OK: first = []
            default:
                if fault == nil {
                    fault = Self.line(PQresultErrorMessage(result))
                    faultState = PQresultErrorField(result, CInt(UInt8(ascii: "C"))).map { String(cString: $0) }
                }
            }
            PQclear(result)
        }
        if let fault { throw .server(fault) }
        return first
    }

    /// Sleeps for the given time.
    ///
    /// Call this only on a thread that does no other work.
    func pause(for time: Duration) { _ = wakeup.wait(for: -1, events: 0, atMost: time) }

    private static func line(_ message: UnsafePointer<CChar>?) -> String {
        guard let message else { return "libpq reports no reason" }
        return String(cString: message).split(whereSeparator: \.isNewline).map { $0.trimmingPrefix(" ") }
            .joined(separator: "; ")
    }

    static func withStrings<Value>(
        _ strings: [String], _ body: ([UnsafePointer<CChar>?]) -> Value
    ) -> Value {
        let bytes = strings.flatMap { Array($0.utf8CString) }
        return bytes.withUnsafeBufferPointer { buffer in
            var pointers: [UnsafePointer<CChar>?] = []
            var offset = 0
            for string in strings {
                pointers.append(buffer.baseAddress.map { $0 + offset })
                offset += string.utf8CString.count
            }
            return body(pointers + [nil])
        }
    }
}

/// Receives the server's notices, which libpq would otherwise print.
///
/// Used only on the connection's thread, inside libpq's calls.
final class NoticeSink {
    /// Whether the server has sent a warning since the last `takeWarning`.
    private var warned = false

    /// Returns whether the server has sent a warning since the last call.
    ///
    /// A warning means that the standby may lack the commit.
    func takeWarning() -> Bool {
        defer { warned = false }
        return warned
    }

    fileprivate func hear(_ result: OpaquePointer?) {
        guard let result, let severity = PQresultErrorField(result, CInt(UInt8(ascii: "V"))) else { return }
        if String(cString: severity) == "WARNING" { warned = true }
    }

    /// Redirects the connection's notices to this sink.
    ///
    /// The caller keeps the sink alive.
    func attach(to connection: OpaquePointer) {
        PQsetNoticeReceiver(
            connection,
            { context, result in
                guard let context else { return }
                Unmanaged<NoticeSink>.fromOpaque(context).takeUnretainedValue().hear(result)
            }, Unmanaged.passUnretained(self).toOpaque())
    }
}
