import Foundation

@testable import Coatcheck

/// A server that accepts connections but never sends anything, like a network in a tunnel.
final class Silence {
    let url: URL
    private let listener: Int32

    init() throws { (listener, url) = try Self.listening() }

    deinit { close(listener) }

    /// Returns a socket that listens, with its address.
    static func listening() throws -> (Int32, URL) {
        #if os(Linux)
            let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            let listener = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = listener
        let port = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address -> Int? in
                guard bind(descriptor, address, length) == 0, listen(descriptor, 64) == 0,
                    getsockname(descriptor, address, &length) == 0
                else { return nil }
                return address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                    Int(UInt16(bigEndian: $0.pointee.sin_port))
                }
            }
        }
        guard let port else { throw Stack.Failure(text: "no free port") }
        return (listener, try Stack.url("http://127.0.0.1:\(port)"))
    }
}

/// A browser that shows its page for a minute, or until its caller is cancelled.
final class WaitingBrowser: SignInBrowser, @unchecked Sendable {
    private let lock = NSLock()
    private var opened: [URL] = []
    private var closed = 0

    var pages: Int { lock.withLock { opened.count } }
    var closings: Int { lock.withLock { closed } }

    func open(_ page: URL) async throws -> URL {
        lock.withLock { opened.append(page) }
        do { try await Task.sleep(for: .seconds(60)) } catch {
            lock.withLock { closed += 1 }
            throw error
        }
        throw CoatcheckError.cancelled
    }
}
