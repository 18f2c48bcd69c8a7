import Hummingbird
import NIOCore
import Synchronization

/// Where the sandbox listens and what it keeps.
package struct SandboxConfiguration: Sendable {
    /// The address to bind.
    package var host: String
    /// The port; 0 takes a free one.
    package var port: Int
    /// The base URL in issuers and links; nil is the listener's own.
    package var baseURL: String?
    /// Whether requests are recorded (the last 10,000).
    package var recording: Bool

    /// A configuration; the defaults are those of tests.
    package init(host: String = "127.0.0.1", port: Int = 0, baseURL: String? = nil, recording: Bool = true) {
        self.host = host
        self.port = port
        self.baseURL = baseURL
        self.recording = recording
    }
}

/// The emulator's server.
package struct SandboxServer: Sendable {
    private let configuration: SandboxConfiguration
    private let state: SandboxState

    /// A server that is not running yet.
    package init(configuration: SandboxConfiguration = SandboxConfiguration()) {
        self.configuration = configuration
        state = SandboxState(recording: configuration.recording)
    }

    /// Serves until the task is cancelled or the process gets SIGTERM or SIGINT; `ready` gets the base URL.
    package func run(
        handlingSignals: Bool = true, ready: @escaping @Sendable (String) -> Void = { _ in }
    ) async throws {
        let app = application(ready: ready)
        if handlingSignals {
            try await app.runService()
        } else {
            try await app.run()
        }
    }

    private func application(ready: @escaping @Sendable (String) -> Void) -> some ApplicationProtocol {
        let state = state
        let configuration = configuration
        return Application(
            responder: SandboxResponder(state: state),
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
            try await server.run(handlingSignals: false) { continuation.yield($0) }
        }
        for await baseURL in ready {
            return RunningSandbox(baseURL: baseURL, control: SandboxControl(state: server.state), task: task)
        }
        try await task.value
        throw CancellationError()
    }
}

/// A sandbox that listens.
package struct RunningSandbox: Sendable {
    /// `http://127.0.0.1:PORT`.
    package let baseURL: String
    /// Faults, records, users, clients and settings, without HTTP.
    package let control: SandboxControl
    private let task: Task<Void, any Error>

    init(baseURL: String, control: SandboxControl, task: Task<Void, any Error>) {
        self.baseURL = baseURL
        self.control = control
        self.task = task
    }

    /// Stops it and waits until it has.
    package func stop() async {
        task.cancel()
        _ = await task.result
    }
}

/// Runs a body beside a sandbox of its own on a free port.
package func withSandbox<Result: Sendable>(
    _ configuration: SandboxConfiguration = SandboxConfiguration(),
    _ body: (RunningSandbox) async throws -> Result
) async throws -> Result {
    let sandbox = try await SandboxServer.start(configuration)
    do {
        let result = try await body(sandbox)
        await sandbox.stop()
        return result
    } catch {
        await sandbox.stop()
        throw error
    }
}
