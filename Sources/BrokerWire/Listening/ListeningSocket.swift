import NIOCore
import Synchronization

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// A listening TCP socket, either opened by this process or passed by its service manager.
///
/// The socket outlives the servers that accept from it, because each server has a descriptor of its own. After a server's end,
/// the system still queues connections for the next server.
package final class ListeningSocket: Sendable {
    /// The number of connections that may wait to be accepted, if the system allows as many.
    static let backlog: CInt = 4096

    /// Whether the socket is a passed socket, which the service manager keeps open after the end of this process.
    package let isHandedOver: Bool
    /// The socket's descriptor; nil after `close`.
    private let descriptor: Mutex<CInt?>

    /// Begins to listen at an address.
    ///
    /// Port 0 selects a free port.
    package init(host: String, port: Int) throws(ListenFailure) {
        let place = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        let address: SocketAddress
        do { address = try SocketAddress.makeAddressResolvingHost(host, port: port) } catch {
            throw .address(place, reason: "\(host) is no address of this machine")
        }
        let descriptor = socket(address.protocol.rawValue, Self.stream, 0)
        guard descriptor >= 0 else { throw .address(place, reason: Self.reason()) }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        // Connections of an earlier process may still use the port. With this option, `bind` fails only if another socket
        // listens at the port.
        var yes: CInt = 1
        _ = setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<CInt>.size))
        let isListening = address.withSockAddr { pointer, size in
            bind(descriptor, pointer, socklen_t(size)) == 0 && listen(descriptor, Self.backlog) == 0
        }
        guard isListening else {
            let failure: ListenFailure = errno == EADDRINUSE ? .inUse(place) : .address(place, reason: Self.reason())
            Self.close(descriptor)
            throw failure
        }
        self.descriptor = Mutex(descriptor)
        isHandedOver = false
    }

    /// Adopts the descriptor of a passed socket, and hides the descriptor from child processes.
    ///
    /// Throws unless the descriptor belongs to a listening TCP socket.
    package init(handedOver descriptor: CInt) throws(ListenFailure) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .descriptor(descriptor, reason: "is not open") }
        guard status.st_mode & S_IFMT == S_IFSOCK else { throw .descriptor(descriptor, reason: "is not a socket") }
        guard Self.option(SO_TYPE, of: descriptor) == Self.stream,
            [NIOBSDSocket.AddressFamily.inet.rawValue, NIOBSDSocket.AddressFamily.inet6.rawValue]
                .contains(Self.family(of: descriptor))
        else { throw .descriptor(descriptor, reason: "is not a TCP socket") }
        guard Self.option(SO_ACCEPTCONN, of: descriptor) == 1 else {
            throw .descriptor(descriptor, reason: "does not listen")
        }
        guard fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0 else {
            throw .descriptor(descriptor, reason: "cannot be kept: \(Self.reason())")
        }
        self.descriptor = Mutex(descriptor)
        isHandedOver = true
    }

    deinit { close() }

    /// Closes the socket.
    ///
    /// The port becomes free if this process made the socket and no server accepts from it.
    package func close() {
        let taken = descriptor.withLock { descriptor in
            defer { descriptor = nil }
            return descriptor
        }
        if let taken { Self.close(taken) }
    }

    /// Duplicates the socket's descriptor for a server, which closes the copy.
    func duplicate() throws(ListenFailure) -> CInt {
        try descriptor.withLock { descriptor throws(ListenFailure) in
            guard let descriptor else { throw .descriptor(-1, reason: "is closed") }
            let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
            guard copy >= 0 else { throw .descriptor(descriptor, reason: "cannot be used: \(Self.reason())") }
            return copy
        }
    }

    /// Sets the backlog again, because NIO lowers it when a server begins to accept from the socket.
    func restoreBacklog() {
        descriptor.withLock { descriptor in
            if let descriptor { _ = listen(descriptor, Self.backlog) }
        }
    }

    private static var stream: CInt {
        #if canImport(Glibc)
            CInt(SOCK_STREAM.rawValue)
        #else
            SOCK_STREAM
        #endif
    }

    private static func option(_ name: CInt, of descriptor: CInt) -> CInt? {
        var value: CInt = 0
        var size = socklen_t(MemoryLayout<CInt>.size)
        return getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : nil
    }

    private static func family(of descriptor: CInt) -> CInt? {
        var storage = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let result = withUnsafeMutableBytes(of: &storage) { bytes in
            bytes.baseAddress.map { getsockname(descriptor, $0.assumingMemoryBound(to: sockaddr.self), &size) } ?? -1
        }
        return result == 0 ? CInt(storage.ss_family) : nil
    }

    private static func reason() -> String { String(cString: strerror(errno)) }

    private static func close(_ descriptor: CInt) {
        #if canImport(Darwin)
            Darwin.close(descriptor)
        #elseif canImport(Glibc)
            Glibc.close(descriptor)
        #elseif canImport(Musl)
            Musl.close(descriptor)
        #endif
    }
}
