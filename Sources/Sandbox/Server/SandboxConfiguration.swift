/// The configuration of the sandbox: where it listens and what it keeps.
package struct SandboxConfiguration: Sendable {
    /// The address to bind.
    package var host: String
    /// The port; 0 takes a free one.
    package var port: Int
    /// The base URL in issuers and links; nil is the listener's own.
    package var baseURL: String?
    /// Whether requests are recorded (the last 10,000).
    package var recording: Bool
    /// The state that it begins with, and goes back to at a reset.
    package var seed: SeedFile?
    /// The listener that asks for certificates; nil for none.
    package var mutualTLS: MutualTLSConfiguration?
    /// The playground beside the providers; nil for none.
    package var playground: PlaygroundConfiguration?

    /// A configuration; the defaults are those of tests.
    package init(
        host: String = "127.0.0.1", port: Int = 0, baseURL: String? = nil, recording: Bool = true,
        seed: SeedFile? = nil, playground: PlaygroundConfiguration? = nil, mutualTLS: MutualTLSConfiguration? = nil
    ) {
        self.playground = playground
        self.mutualTLS = mutualTLS
        self.seed = seed
        self.host = host
        self.port = port
        self.baseURL = baseURL
        self.recording = recording
    }
}
