/// One fault in an upstream's configuration.
package struct UpstreamFault: Error, Sendable, Equatable {
    /// The faulty key under `upstreams.NAME`.
    package let key: String
    /// The fault in words for the operator.
    package let message: String

    init(_ key: String, _ message: String) {
        self.key = key
        self.message = message
    }
}
