import BrokerHTTP
import BrokerWire
import ServiceLifecycle

/// A listener as a service, which accepts until shutdown and ends with its last connection.
///
/// When the shutdown begins, a second server answers new connections to the broker's own socket with 503 `shutting_down`,
/// until the process ends. A passed socket is left to the next process, which accepts the waiting connections.
struct Listener: Service {
    let name: ListenerName
    let service: CurrentService
    let configuration: HTTPServer.Configuration
    let sockets: ListeningSockets
    /// Called with the port when the listener accepts.
    let listening: @Sendable (Int) -> Void

    func run() async throws {
        let socket = try sockets.socket(name)
        let server = try await HTTPServer.start(service, configuration, on: socket)
        listening(server.port)
        try? await gracefulShutdown()
        if !socket.isHandedOver {
            // Start the refusing server before the draining of the other server, so that one of them accepts at every moment.
            let refusing = try? await HTTPServer.start(service.refusing, configuration, on: socket)
            if let refusing { sockets.keep(refusing) }
        }
        await server.drain()
    }
}
