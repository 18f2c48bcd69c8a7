import Hummingbird
import HummingbirdTLS
import NIOCore

/// The emulator's server.
package struct SandboxServer: Sendable {
    private let configuration: SandboxConfiguration
    private let state: SandboxState
    private let playground: Playground?

    /// Creates a server that is not yet running.
    package init(configuration: SandboxConfiguration = SandboxConfiguration()) {
        self.configuration = configuration
        state = SandboxState(recording: configuration.recording, seed: configuration.seed)
        configuration.seed?.apply(to: SandboxControl(state: state))
        let state = state
        playground = configuration.playground.map { Playground(configuration: $0, state: state) }
    }

    /// Serves until the task is cancelled; `ready` gets the base URL.
    package func run(ready: @escaping @Sendable (String) -> Void = { _ in }) async throws {
        guard let mutualTLS = configuration.mutualTLS else { return try await application(ready: ready).run() }
        let secure = try application(of: mutualTLS)
        // Start the listener for certificates first, because both listeners must be usable when `ready` is called.
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await secure.application.run() }
            for await _ in secure.running { break }
            group.addTask { try await application(ready: ready).run() }
            try await group.next()
            group.cancelAll()
        }
    }

    private func application(
        of mutualTLS: MutualTLSConfiguration
    ) throws -> (application: some ApplicationProtocol, running: AsyncStream<Void>) {
        let (running, told) = AsyncStream.makeStream(of: Void.self)
        let (state, configuration) = (state, configuration)
        let application = Application(
            responder: SandboxResponder(state: state, playground: nil, asksForCertificates: true),
            server: try .tls(.http1(), tlsConfiguration: mutualTLS.tls()),
            configuration: ApplicationConfiguration(
                address: .hostname(configuration.host, port: mutualTLS.port), serverName: nil),
            onServerRunning: { channel in
                state.with { $0.mutualTLSURL = "https://localhost:\(channel.localAddress?.port ?? mutualTLS.port)" }
                told.yield()
            })
        return (application, running)
    }

    private func application(ready: @escaping @Sendable (String) -> Void) -> some ApplicationProtocol {
        let (state, playground) = (state, playground)
        let configuration = configuration
        return Application(
            responder: SandboxResponder(state: state, playground: playground),
            configuration: ApplicationConfiguration(
                address: .hostname(configuration.host, port: configuration.port), serverName: nil),
            onServerRunning: { channel in
                let port = channel.localAddress?.port ?? configuration.port
                let baseURL = configuration.baseURL ?? "http://\(configuration.host):\(port)"
                state.with { $0.baseURL = baseURL }
                ready(baseURL)
            })
    }

    /// Starts a sandbox in this process, and returns as soon as it listens.
    package static func start(
        _ configuration: SandboxConfiguration = SandboxConfiguration()
    ) async throws -> RunningSandbox {
        let server = SandboxServer(configuration: configuration)
        let (ready, continuation) = AsyncStream<String>.makeStream()
        let task = Task {
            defer { continuation.finish() }
            try await server.run { continuation.yield($0) }
        }
        for await baseURL in ready {
            return RunningSandbox(baseURL: baseURL, control: SandboxControl(state: server.state), task: task)
        }
        try await task.value
        throw CancellationError()
    }
}
