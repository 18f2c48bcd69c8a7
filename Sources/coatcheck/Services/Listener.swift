import BrokerHTTP
import BrokerWire
import ServiceLifecycle

/// A listener as a service, which accepts until shutdown and ends with its last connection.
///
/// After that, its own socket answers 503 `shutting_down` until the process ends. A socket that was handed over is left to the
/// next process, in which the waiting connections are accepted.
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
            // Start this next to the draining server, so that one of them accepts at every moment.
            let refusing = try? await HTTPServer.start(service.refusing, configuration, on: socket)
            if let refusing { sockets.keep(refusing) }
        }
        await server.drain()
    }
}
