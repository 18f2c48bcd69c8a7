import Hummingbird

/// One provider that the sandbox plays.
protocol SandboxProvider: Sendable {
    /// Its name in the control API and, usually, its first path segment.
    var name: String { get }
    /// The first path segments that belong to it.
    var prefixes: [String] { get }
    /// Its default settings.
    var defaults: JSON { get }
    /// The name of the endpoint under a path, nil when there is none.
    func endpoint(method: String, path: String) -> String?
    /// Whether the request's body is read by the handler itself.
    func streams(endpoint: String) -> Bool
    /// Answers.
    func handle(_ call: Call) async throws -> Response
}

extension SandboxProvider {
    var prefixes: [String] { [name] }
    var defaults: JSON { Settings.base }
    func streams(endpoint: String) -> Bool { false }
}
