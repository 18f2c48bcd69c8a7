import Foundation
import Glibc

/// A server that answers every connection's first bytes with a fatal TLS alert.
final class AlertServer: Sendable {
    private let listener: Int32
    let port: Int

    init(_ alert: UInt8) throws {
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
        Thread.detachNewThread {
            while true {
                let connection = accept(descriptor, nil, nil)
                guard connection >= 0 else { return }
                var room = [UInt8](repeating: 0, count: 16384)
                _ = recv(connection, &room, room.count, 0)
                let record: [UInt8] = [21, 3, 3, 0, 2, 2, alert]
                _ = send(connection, record, record.count, Int32(MSG_NOSIGNAL))
                Glibc.shutdown(connection, Int32(SHUT_WR))
                _ = recv(connection, &room, room.count, 0)
                Glibc.close(connection)
            }
        }
    }

    deinit { Glibc.shutdown(listener, Int32(SHUT_RDWR)) }
}
