import Broker
import BrokerHTTP
import BrokerWire
import Foundation
import Synchronization

/// The sockets of the broker's listeners: those that were handed over, and its own for the rest.
///
/// They are closed when everything else has ended, so that between the last request that is served and the next process
/// nobody finds a closed door: what comes in meanwhile waits (handed over) or is told to come again (its own).
final class ListeningSockets: Sendable {
    /// The longest time that those who were told to come again may take to hear it.
    private static let farewell = Duration.milliseconds(50)

    private let sockets: [ListenerName: ListeningSocket]
    /// The servers that refuse, until the end.
    private let refusing = Mutex<[HTTPServer]>([])

    private init(_ sockets: [ListenerName: ListeningSocket]) { self.sockets = sockets }

    /// Takes what this process's environment says was handed over, and removes it from there: a program that is started
    /// later must not take it for its own.
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

    /// Begins to listen wherever the configuration says and nothing was handed over.
    ///
    /// An address that another process has is tried again through `wait`, which throws when that has lasted too long.
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

    /// Keeps a server that refuses until the end.
    func keep(_ server: HTTPServer) { refusing.withLock { $0.append(server) } }

    /// Closes everything: whoever waits for the addresses has them now.
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

/// The reason for which a listener has no socket, in a sentence for the operator that says which one it is.
struct ListenerFailure: Error, CustomStringConvertible {
    let listener: ListenerName
    let reason: ListenFailure

    var description: String { "the \(listener.rawValue) listener: \(reason)" }
}
