/// A running sandbox.
package struct RunningSandbox: Sendable {
    /// The base URL, by default `http://127.0.0.1:PORT`.
    package let baseURL: String
    /// Faults, records, users, clients and settings, accessible without HTTP.
    package let control: SandboxControl
    private let task: Task<Void, any Error>

    init(baseURL: String, control: SandboxControl, task: Task<Void, any Error>) {
        self.baseURL = baseURL
        self.control = control
        self.task = task
    }

    /// Stops the sandbox and waits for its end.
    package func stop() async {
        task.cancel()
        _ = await task.result
    }
}
