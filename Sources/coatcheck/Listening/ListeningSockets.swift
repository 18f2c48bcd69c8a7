import Broker
import BrokerHTTP
import BrokerWire
import Foundation
import Synchronization

/// The sockets of the broker's listeners: those that were handed over, and those that the broker opened itself.
///
/// The sockets are closed after everything else has ended, so that clients always find an open port until the next process
/// starts. Connections that arrive in between wait in a socket that was handed over. On the broker's own sockets, they get a
/// 503.
final class ListeningSockets: Sendable {
    /// The longest time for sending such a 503.
    private static let farewell = Duration.milliseconds(50)

    private let sockets: [ListenerName: ListeningSocket]
    /// The servers that answer 503 until the process ends.
    private let refusing = Mutex<[HTTPServer]>([])

    private init(_ sockets: [ListenerName: ListeningSocket]) { self.sockets = sockets }

    /// Adopts the sockets that the environment describes, and removes the variables.
    ///
    /// Otherwise a child process could use the sockets as its own.
    static func handedOver() throws(StartFailure) -> [ListenerName: ListeningSocket] {
        let environment = ProcessInfo.processInfo.environment
        for name in HandOver.variables { unsetenv(name) }
        let handOver = try HandOver(environment, pid: getpid())
        var sockets: [ListenerName: ListeningSocket] = [:]
        for (name, descriptor) in handOver.descriptors {
            do throws(ListenFailure) {
                sockets[name] = try ListeningSocket(handedOver: descriptor)
            } catch {
                throw StartFailure("LISTEN_FDS: \(error) (handed over for the \(name.rawValue) listener)")
            }
        }
        return sockets
    }

    /// Opens the configured listeners that were not handed over.
    ///
    /// If another process listens at an address, `wait` retries, and throws after its limit.
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
