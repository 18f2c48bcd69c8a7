import BrokerHTTP
import BrokerWire
import ServiceLifecycle

/// A listener as a service: accepts until shutdown, and ends when the last of its connections has.
///
/// From then until the process ends, its own socket is answered by 503 `shutting_down`; one that was handed over is left
/// to the next process, which finds what came in meanwhile.
struct Listener: Service {
    let name: ListenerName
    let service: CurrentService
    let configuration: HTTPServer.Configuration
    let sockets: ListeningSockets
    /// Is told the port.
    let listening: @Sendable (Int) -> Void

    func run() async throws {
        let socket = try sockets.socket(name)
        let server = try await HTTPServer.start(service, configuration, on: socket)
        listening(server.port)
        try? await gracefulShutdown()
        if !socket.isHandedOver {
            // Beside the server that drains, so that at no moment nobody accepts.
            let refusing = try? await HTTPServer.start(service.refusing, configuration, on: socket)
            if let refusing { sockets.keep(refusing) }
        }
        await server.drain()
    }
}
