import Hummingbird

/// One provider that the sandbox emulates.
protocol SandboxProvider: Sendable {
    /// The provider's name in the control API and, usually, its first path segment.
    var name: String { get }
    /// The first path segments of the provider.
    var prefixes: [String] { get }
    /// The provider's default settings.
    var defaults: JSON { get }
    /// The name of the endpoint for a path; nil for an unknown path.
    func endpoint(method: String, path: String) -> String?
    /// Whether the handler reads the request's body itself.
    func streams(endpoint: String) -> Bool
    /// Handles a request.
    func handle(_ call: Call) async throws -> Response
}

extension SandboxProvider {
    var prefixes: [String] { [name] }
    var defaults: JSON { Settings.base }
    func streams(endpoint: String) -> Bool { false }
}
