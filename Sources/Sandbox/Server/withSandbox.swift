/// Runs a body with its own sandbox on a free port.
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
