import BrokerWire
import ServiceLifecycle

/// A listener as a service: listens until shutdown, and ends when the last of its connections has.
struct Listener: Service {
    let service: any WireService
    let configuration: HTTPServer.Configuration
    /// Is told the port that it got.
    let listening: @Sendable (Int) -> Void

    func run() async throws {
        let server = try await HTTPServer.start(service, configuration)
        listening(server.port)
        try? await gracefulShutdown()
        await server.drain()
    }
}
