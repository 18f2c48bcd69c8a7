import Broker
import CLibPQ

/// A libpq connection, used by one thread at a time.
///
/// Everything that waits has a deadline: a server that is silent keeps nobody.
final class LibPQConnection {
    let handle: OpaquePointer
    let notices = NoticeSink()
    private let wakeup: Wakeup

    /// Connects, which blocks for as long as `connect_timeout` says, for each host.
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

    /// What libpq said last, as one line for the operator.
    var message: String { Self.line(PQerrorMessage(handle)) }

    /// Runs commands one after the other and returns the text of the first row of the last of them.
    ///
    /// For opening, migrating and listening; not in pipeline mode.
    @discardableResult
    func execute(_ sql: String, within limit: Duration) throws(StoreOpenFailure) -> [String?] {
        guard PQsendQuery(handle, sql) == 1 else { throw .unreachable(message) }
        let deadline = MonotonicTime.now() + limit
        var first: [String?] = []
        var fault: String?
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
            default: fault = fault ?? Self.line(PQresultErrorMessage(result))
            }
            PQclear(result)
        }
        if let fault { throw .server(fault) }
        return first
    }

    private static func line(_ message: UnsafePointer<CChar>?) -> String {
        guard let message else { return "libpq gives no reason" }
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
