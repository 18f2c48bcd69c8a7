/// One call to a provider.
///
/// It may hold secrets and is never described.
struct ProviderRequest: Sendable {
    /// The connections that may carry the call (library note 5).
    enum ConnectionUse: Sendable {
        /// A connection of its own: a pooled one that the provider closes at that instant would lose a single-use
        /// secret.
        case single
        /// Kept connections: metadata and identity.
        case pooled
    }

    var method: String
    var url: EndpointURL
    var connection: ConnectionUse
    var headers: [(name: String, value: String)] = []
    var body: [UInt8]?

    static func get(_ url: EndpointURL, accept: String = "application/json") -> ProviderRequest {
        ProviderRequest(method: "GET", url: url, connection: .pooled, headers: [("Accept", accept)])
    }
}
