import Hummingbird
import NIOCore

/// The emulator's server.
package struct SandboxServer: Sendable {
    private let configuration: SandboxConfiguration
    private let state: SandboxState
    private let playground: Playground?

    /// A server that is not running yet.
    package init(configuration: SandboxConfiguration = SandboxConfiguration()) {
        self.configuration = configuration
        state = SandboxState(recording: configuration.recording, seed: configuration.seed)
        configuration.seed?.apply(to: SandboxControl(state: state))
        let state = state
        playground = configuration.playground.map { Playground(configuration: $0, state: state) }
    }

    /// Serves until the task is cancelled; `ready` gets the base URL.
    package func run(ready: @escaping @Sendable (String) -> Void = { _ in }) async throws {
        try await application(ready: ready).run()
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

    /// Starts a sandbox in this process and returns once it listens.
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
