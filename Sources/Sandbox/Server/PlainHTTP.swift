import Dispatch
import Glibc

/// A POST over plain HTTP to an IPv4 address or `localhost`, which is enough for sending logout tokens.
///
/// The call blocks a thread of Dispatch instead of a thread of the cooperative pool.
enum PlainHTTP {
    struct Answer: Sendable {
        let status: Int
        let body: String
    }

    static func post(_ url: String, form: String) async throws -> Answer {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(with: Result { try blockingPost(url, form: form) })
            }
        }
    }

    private static func blockingPost(_ url: String, form: String) throws -> Answer {
        guard url.hasPrefix("http://") else { throw BackchannelLogout.Refused(description: "only http:// is sent to") }
        let rest = url.dropFirst("http://".count)
        let authority = String(rest.prefix { $0 != "/" })
        let path = rest.dropFirst(authority.count)
        let parts = authority.split(separator: ":")
        let host = parts.first.map { $0 == "localhost" ? "127.0.0.1" : String($0) } ?? ""
        let port = parts.count > 1 ? UInt16(parts[1]) ?? 80 : 80
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw BackchannelLogout.Refused(description: "no socket") }
        defer { close(descriptor) }
        var patience = timeval(tv_sec: 15, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        guard inet_pton(AF_INET, host, &address.sin_addr) == 1 else {
            throw BackchannelLogout.Refused(description: "not an IPv4 address: \(host)")
        }
        let connected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw BackchannelLogout.Refused(description: "cannot connect to \(authority)") }
        let request =
            "POST \(path.isEmpty ? "/" : String(path)) HTTP/1.1\r\nHost: \(authority)\r\n"
            + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \(form.utf8.count)\r\n"
            + "Connection: close\r\n\r\n\(form)"
        var left = Array(request.utf8)[...]
        while !left.isEmpty {
            let sent = left.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard sent > 0 else { throw BackchannelLogout.Refused(description: "cannot send") }
            left = left.dropFirst(sent)
        }
        return parse(receive(descriptor))
    }

    private static func receive(_ descriptor: Int32) -> [UInt8] {
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while received.count < 1 << 20 {
            let count = buffer.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) }
            guard count > 0 else { break }
            received += buffer[..<count]
        }
        return received
    }

    private static func parse(_ bytes: [UInt8]) -> Answer {
        let text = String(decoding: bytes, as: UTF8.self)
        let status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        // Search the blank line in scalars, because CR LF is one Character.
        let scalars = Array(text.unicodeScalars)
        var body = ""
        for index in scalars.indices.dropLast(3)
        where scalars[index] == "\r" && scalars[index + 1] == "\n" && scalars[index + 2] == "\r"
            && scalars[index + 3] == "\n"
        {
            for scalar in scalars[(index + 4)...] { body.unicodeScalars.append(scalar) }
            break
        }
        return Answer(status: status, body: body)
    }
}
