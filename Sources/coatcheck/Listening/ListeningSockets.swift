import Broker
import BrokerHTTP
import BrokerWire
import Foundation
import Synchronization

/// The sockets of the broker's listeners, either passed by a service manager or opened by the broker itself.
///
/// The sockets are closed at the end of the process, so that clients find an open port for as long as possible. After the
/// listeners have stopped accepting, new connections to a passed socket wait for the next process. New connections to the
/// broker's own sockets get a 503.
final class ListeningSockets: Sendable {
    /// The longest time that `close` waits until the answers with 503 are sent.
    private static let farewell = Duration.milliseconds(50)

    private let sockets: [ListenerName: ListeningSocket]
    /// The servers that answer 503 until the process ends.
    private let refusing = Mutex<[HTTPServer]>([])

    private init(_ sockets: [ListenerName: ListeningSocket]) { self.sockets = sockets }

    /// Takes the passed sockets that environment variables describe, and removes the variables.
    ///
    /// If the variables remained, a child process could treat the descriptors as its own.
    static func handedOver() throws(StartFailure) -> [ListenerName: ListeningSocket] {
        let environment = ProcessInfo.processInfo.environment
        for name in PassedSockets.variables { unsetenv(name) }
        let passed = try PassedSockets(environment, pid: getpid())
        var sockets: [ListenerName: ListeningSocket] = [:]
        for (name, descriptor) in passed.descriptors {
            do throws(ListenFailure) {
                sockets[name] = try ListeningSocket(handedOver: descriptor)
            } catch {
                throw StartFailure("LISTEN_FDS: \(error) (handed over for the \(name.rawValue) listener)")
            }
        }
        return sockets
    }

    /// Opens a socket for each configured listener that has no passed socket.
    ///
    /// If another process listens at an address, this method retries until the time limit of `wait`, and then throws.
    static func open(
        _ configuration: Configuration, handedOver: [ListenerName: ListeningSocket], wait: StartWait
    ) async throws -> ListeningSockets {
        let addresses: [(ListenerName, ListenAddress?)] = [
            (.public, configuration.server.listen), (.backend, configuration.server.backendListen),
            (.management, configuration.management.listen),
        ]
        var sockets: [ListenerName: ListeningSocket] = [:]
        for (name, address) in addresses {
            guard let address else {
                if handedOver[name] != nil {
                    throw StartFailure(
                        "a socket is handed over for the \(name.rawValue) listener, and `server.backend_listen` is not "
                            + "set: backends ask at the public listener")
                }
                continue
            }
            if let socket = handedOver[name] {
                sockets[name] = socket
                continue
            }
            sockets[name] = try await wait.retrying { () throws(ListenerFailure) in
                do throws(ListenFailure) {
                    return try ListeningSocket(host: address.host, port: address.port)
                } catch {
                    throw ListenerFailure(listener: name, reason: error)
                }
            } while: { failure in
                if case .inUse = failure.reason { true } else { false }
            }
        }
        return ListeningSockets(sockets)
    }

    /// Returns a listener's socket.
    func socket(_ name: ListenerName) throws(StartFailure) -> ListeningSocket {
        guard let socket = sockets[name] else { throw StartFailure("the \(name.rawValue) listener has no socket") }
        return socket
    }

    /// Keeps a server that answers 503 until the process ends.
    func keep(_ server: HTTPServer) { refusing.withLock { $0.append(server) } }

    /// Closes all sockets, so that a waiting process can take the addresses.
    func close() async {
        for socket in sockets.values { socket.close() }
        let servers = refusing.withLock { servers in
            defer { servers = [] }
            return servers
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await withTaskGroup(of: Void.self) { drains in
                    for server in servers { drains.addTask { await server.drain() } }
                }
            }
            group.addTask { try? await Task.sleep(for: Self.farewell) }
            await group.next()
            group.cancelAll()
        }
    }
}

/// The reason why a listener has no socket, in a sentence for the operator that names the listener.
struct ListenerFailure: Error, CustomStringConvertible {
    let listener: ListenerName
    let reason: ListenFailure

    var description: String { "the \(listener.rawValue) listener: \(reason)" }
}
