import Foundation
import Glibc
import Synchronization

/// A TCP server that sends a test's answers byte for byte, on its own threads.
final class RawServer: Sendable {
    /// One request as it arrived.
    struct Received: Sendable {
        var method: String
        var target: String
        /// Names and values as sent, in order.
        var headers: [(name: String, value: String)]
        var body: String
        /// The number of the request's connection, counted from 1.
        var connection: Int

        func header(_ name: String) -> String? { headers.first { $0.name.lowercased() == name.lowercased() }?.value }
    }

    /// The server's answer to a request.
    enum Reply: Sendable {
        case http(Int, [(String, String)], [UInt8])
        /// Sends these bytes, then closes the connection.
        case raw([UInt8])
        /// Sends these bytes, then is silent until the client disconnects.
        case rawThenHang([UInt8])
        case close
        /// Is silent until the client disconnects.
        case hang
    }

    private struct State {
        var received: [Received] = []
        var connections = 0
    }

    private let listener: Int32
    private let state = Mutex(State())
    let port: Int
    var base: String { "http://127.0.0.1:\(port)" }
    var received: [Received] { state.withLock { $0.received } }
    var connections: Int { state.withLock { $0.connections } }

    init(_ answer: @escaping @Sendable (Received) -> Reply) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                Glibc.bind(descriptor, generic, length) == 0 && listen(descriptor, 64) == 0
                    && getsockname(descriptor, generic, &length) == 0
            }
        }
        guard bound else { throw POSIXError(.EADDRNOTAVAIL) }
        listener = descriptor
        port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { [self] in
            while true {
                let connection = accept(listener, nil, nil)
                guard connection >= 0 else { return }
                let number = state.withLock { state in
                    state.connections += 1
                    return state.connections
                }
                Thread.detachNewThread { [self] in serve(connection, number, answer) }
            }
        }
    }

    deinit { stop() }

    func stop() { shutdown(listener, Int32(SHUT_RDWR)) }

    private func serve(_ connection: Int32, _ number: Int, _ answer: (Received) -> Reply) {
        defer { Glibc.close(connection) }
        var buffer: [UInt8] = []
        while let request = read(connection, &buffer, number) {
            state.withLock { $0.received.append(request) }
            switch answer(request) {
            case .http(let status, let headers, let body):
                var head = "HTTP/1.1 \(status) Status\r\n"
                for (name, value) in headers { head += "\(name): \(value)\r\n" }
                if !headers.contains(where: { $0.0 == "Content-Length" }) {
                    head += "Content-Length: \(body.count)\r\n"
                }
                guard write(connection, Array((head + "\r\n").utf8) + body) else { return }
            case .raw(let bytes):
                _ = write(connection, bytes)
                return
            case .close: return
            case .rawThenHang(let bytes):
                _ = write(connection, bytes)
                drain(connection)
                return
            case .hang:
                drain(connection)
                return
            }
        }
    }

    private func drain(_ connection: Int32) {
        var byte: UInt8 = 0
        while recv(connection, &byte, 1, 0) > 0 {}
    }

    private func read(_ connection: Int32, _ buffer: inout [UInt8], _ number: Int) -> Received? {
        let end = Array("\r\n\r\n".utf8)
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            if let split = buffer.firstRange(of: end) {
                let lines = String(decoding: buffer[..<split.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
                let first = lines[0].split(separator: " ")
                let headers = lines.dropFirst().map { line in
                    let colon = line.firstIndex(of: ":") ?? line.endIndex
                    return (
                        name: String(line[..<colon]),
                        value: line[colon...].dropFirst().trimmingCharacters(in: .whitespaces)
                    )
                }
                let length = headers.first { $0.name.lowercased() == "content-length" }.flatMap { Int($0.value) } ?? 0
                if buffer.count >= split.upperBound + length {
                    let body = String(decoding: buffer[split.upperBound..<(split.upperBound + length)], as: UTF8.self)
                    buffer.removeFirst(split.upperBound + length)
                    return Received(
                        method: String(first[0]), target: String(first[1]), headers: headers, body: body,
                        connection: number)
                }
            }
            let count = recv(connection, &chunk, chunk.count, 0)
            guard count > 0 else { return nil }
            buffer += chunk[..<count]
        }
    }

    private func write(_ connection: Int32, _ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }
}

extension RawServer.Reply {
    /// A JSON answer.
    static func json(_ text: String, status: Int = 200, _ headers: [(String, String)] = []) -> RawServer.Reply {
        .http(status, [("Content-Type", "application/json")] + headers, Array(text.utf8))
    }
}
