import Foundation

@testable import Coatcheck

/// An HTTP server whose answers a test scripts.
final class ScriptedBroker: @unchecked Sendable {
    /// A request as it arrived.
    struct Request: Sendable {
        let method: String
        let path: String
        let fields: [String: String]
        let body: String
    }

    /// The behaviour of the server after a request.
    enum Reply: Sendable {
        case answer(Int, fields: [String: String] = [:], body: String = "")
        /// The connection ends before an answer.
        case lost
        /// The connection stays open and silent.
        case silence
    }

    let url: URL
    private let listener: Int32
    private let lock = NSLock()
    private let reply: @Sendable (Request) -> Reply
    private var silent: [Int32] = []

    init(_ reply: @escaping @Sendable (Request) -> Reply) throws {
        self.reply = reply
        (listener, url) = try Silence.listening()
        let descriptor = listener
        Thread.detachNewThread { [weak self] in
            while true {
                let connection = accept(descriptor, nil, nil)
                guard connection >= 0, let self else { return }
                Thread.detachNewThread { self.serve(connection) }
            }
        }
    }

    /// Ends the server, so that further requests fail.
    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
        for connection in lock.withLock({ silent }) { close(connection) }
    }

    private func serve(_ connection: Int32) {
        guard let request = received(connection) else {
            close(connection)
            return
        }
        switch reply(request) {
        case .answer(let status, let fields, let body):
            var head = "HTTP/1.1 \(status) Status\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n"
            for (name, value) in fields { head += "\(name): \(value)\r\n" }
            let bytes = Array((head + "\r\n" + body).utf8)
            #if os(Linux)
                _ = send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
            #else
                _ = send(connection, bytes, bytes.count, 0)
            #endif
            close(connection)
        case .lost: close(connection)
        case .silence: lock.withLock { silent.append(connection) }
        }
    }

    private func received(_ connection: Int32) -> Request? {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = recv(connection, &buffer, buffer.count, 0)
            guard count > 0 else { return nil }
            bytes += buffer.prefix(count)
            let text = String(decoding: bytes, as: UTF8.self)
            guard let end = text.range(of: "\r\n\r\n") else { continue }
            let lines = text[..<end.lowerBound].components(separatedBy: "\r\n")
            let words = lines[0].split(separator: " ").map(String.init)
            var fields: [String: String] = [:]
            for line in lines.dropFirst() {
                let parts = line.components(separatedBy: ": ")
                fields[parts[0].lowercased()] = parts.dropFirst().joined(separator: ": ")
            }
            let body = String(text[end.upperBound...])
            guard body.utf8.count >= Int(fields["content-length"] ?? "0") ?? 0, words.count > 1 else { continue }
            return Request(method: words[0], path: words[1], fields: fields, body: body)
        }
    }
}
