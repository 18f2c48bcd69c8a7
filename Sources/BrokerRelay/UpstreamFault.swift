/// One thing wrong with an upstream's configuration.
package struct UpstreamFault: Error, Sendable, Equatable {
    /// The key under `upstreams.NAME`.
    package let key: String
    /// What is wrong, for the operator.
    package let message: String

    init(_ key: String, _ message: String) {
        self.key = key
        self.message = message
    }
}

/// Everything wrong with an upstream's configuration, found in one go.
package struct UpstreamFaults: Error, Sendable, Equatable {
    package let faults: [UpstreamFault]
}
