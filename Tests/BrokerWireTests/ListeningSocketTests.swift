import Foundation
import Glibc
import HTTPTypes
import NIOCore
import Testing

@testable import BrokerWire

@Suite("Listening sockets", .timeLimit(.minutes(1)))
struct ListeningSocketTests {
    /// Makes a socket.
    ///
    /// The test has to close it.
    private static func descriptor(_ family: Int32, _ kind: __socket_type, bound: Bool = false) throws -> Int32 {
        let made = socket(family, Int32(kind.rawValue), 0)
        try #require(made >= 0)
        guard bound else { return made }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(made, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(result == 0)
        return made
    }

    private static func refusal(of descriptor: Int32) -> String? {
        do {
            _ = try ListeningSocket(handedOver: descriptor)
            return nil
        } catch { return "\(error)" }
    }

    @Test(
        "A service manager passes a descriptor that is no open, listening TCP socket → refused, and the message has its number"
    )
    func refuses() throws {
        // `Int32.max` is above the system's limit for descriptors. So a concurrent test cannot have a descriptor with this
        // number.
        #expect(Self.refusal(of: .max) == "descriptor \(Int32.max) is not open")
        let file = open("/dev/null", O_RDONLY)
        #expect(Self.refusal(of: file) == "descriptor \(file) is not a socket")
        let datagrams = try Self.descriptor(AF_INET, SOCK_DGRAM, bound: true)
        #expect(Self.refusal(of: datagrams) == "descriptor \(datagrams) is not a TCP socket")
        let local = try Self.descriptor(AF_UNIX, SOCK_STREAM)
        #expect(Self.refusal(of: local) == "descriptor \(local) is not a TCP socket")
        let bound = try Self.descriptor(AF_INET, SOCK_STREAM, bound: true)
        #expect(Self.refusal(of: bound) == "descriptor \(bound) does not listen")
        for descriptor in [file, datagrams, local, bound] { close(descriptor) }
    }

    @Test(
        "A service manager passes a listening socket → accepted, and programs that the broker starts do not inherit the socket"
    )
    func takes() throws {
        let made = try Self.descriptor(AF_INET, SOCK_STREAM, bound: true)
        try #require(listen(made, 1) == 0)
        let taken = try ListeningSocket(handedOver: made)
        #expect(taken.isHandedOver)
        #expect(fcntl(made, F_GETFD) == FD_CLOEXEC)
        var (before, after) = (stat(), stat())
        let wasOpen = fstat(made, &before) == 0
        taken.close()
        let isOpen = fstat(made, &after) == 0
        // After the close, another test may already have a descriptor with this number, but of another file.
        #expect(wasOpen && (!isOpen || after.st_ino != before.st_ino))
    }

    @Test(
        "A listener's address is in use → the error `inUse`; the address belongs to another machine → the error `address`"
    )
    func addresses() throws {
        let first = try ListeningSocket(host: "127.0.0.1", port: 0)
        let port = try Self.port(first)
        #expect(throws: ListenFailure.inUse("127.0.0.1:\(port)")) {
            _ = try ListeningSocket(host: "127.0.0.1", port: port)
        }
        first.close()
        try ListeningSocket(host: "127.0.0.1", port: port).close()
        do {
            _ = try ListeningSocket(host: "192.0.2.1", port: 80)
            Issue.record("a socket listens on another machine's address")
        } catch {
            guard case .address("192.0.2.1:80", _) = error else { throw error }
        }
    }

    private static func port(_ socket: ListeningSocket) throws -> Int {
        let copy = try socket.duplicate()
        defer { close(copy) }
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(copy, $0, &size) }
        }
        try #require(result == 0)
        return Int(UInt16(bigEndian: address.sin_port))
    }

    /// A service that answers every request with the service's name.
    private struct Named: WireService {
        let name: String

        func respond(to request: HTTPRequest, body: RequestBody, of connection: ClientConnection) async -> Answer {
            Answer(.ok, [], body: .whole(ByteBuffer(string: name)))
        }

        func refuse(_ refusal: FramingRefusal, on connection: ClientConnection) -> Answer {
            Answer(.badRequest, [], body: .none)
        }

        func answersWithoutHost(_ target: String) -> Bool { false }
    }

    /// The error of a connection to a port without a listener.
    private struct Refused: Error {}

    /// Connects to a port of this machine.
    private static func connect(_ port: Int) throws -> Int32 {
        let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(client, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else {
            close(client)
            throw Refused()
        }
        return client
    }

    /// Sends a request and returns the whole answer.
    ///
    /// The socket calls block, so they run on a thread of their own.
    private static func ask(_ client: Int32) async -> String {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let request = Array("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".utf8)
                _ = send(client, request, request.count, 0)
                var (all, buffer) = ([UInt8](), [UInt8](repeating: 0, count: 4096))
                while case let count = recv(client, &buffer, buffer.count, 0), count > 0 { all += buffer[..<count] }
                close(client)
                continuation.resume(returning: String(decoding: all, as: UTF8.self))
            }
        }
    }

    @Test("A client connects after a listening socket's server has drained → the next server on this socket answers")
    func waits() async throws {
        let socket = try ListeningSocket(host: "127.0.0.1", port: 0)
        let first = try await HTTPServer.start(Named(name: "first"), HTTPServer.Configuration(), on: socket)
        let port = first.port
        #expect(try await Self.ask(Self.connect(port)).hasSuffix("first"))
        await first.drain()
        let waiting = try Self.connect(port)
        async let answer = Self.ask(waiting)
        let second = try await HTTPServer.start(Named(name: "second"), HTTPServer.Configuration(), on: socket)
        #expect(await answer.hasSuffix("second"))
        await second.drain()
        socket.close()
        #expect(throws: Refused.self) { _ = try Self.connect(port) }
    }

    @Test("20 clients connect, and then send their requests while the server drains → all requests are answered")
    func fresh() async throws {
        let socket = try ListeningSocket(host: "127.0.0.1", port: 0)
        var configuration = HTTPServer.Configuration()
        var limits = ConnectionLimits()
        limits.firstRequest = .seconds(30)
        let terms = ConnectionTerms(limits)
        configuration.terms = { terms }
        let server = try await HTTPServer.start(Named(name: "served"), configuration, on: socket)
        let clients = try (0..<20).map { _ in try Self.connect(server.port) }
        // The server accepts connections in order. It answers a later connection here, so it has accepted the 20 earlier ones.
        _ = try await Self.ask(Self.connect(server.port))
        async let drained: Void = server.drain()
        for client in clients {
            let answer = await Self.ask(client)
            #expect(answer.hasSuffix("served"))
            #expect(answer.lowercased().contains("connection: close"))
        }
        await drained
    }
}
