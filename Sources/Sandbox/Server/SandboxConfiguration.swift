/// The configuration of the sandbox: its addresses and its records.
package struct SandboxConfiguration: Sendable {
    /// The address to bind.
    package var host: String
    /// The port; 0 selects a free one.
    package var port: Int
    /// The base URL in issuers and links; nil is the listener's own.
    package var baseURL: String?
    /// Whether the last requests are recorded (`RecordRing`).
    package var recording: Bool
    /// The initial state, which a reset restores.
    package var seed: SeedFile?
    /// The listener that asks for certificates; nil if it is off.
    package var mutualTLS: MutualTLSConfiguration?
    /// The playground next to the providers; nil if it is off.
    package var playground: PlaygroundConfiguration?

    /// Creates a configuration; the defaults are for tests.
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
