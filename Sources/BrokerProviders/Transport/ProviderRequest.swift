import AsyncHTTPClient
import NIOHTTP1

/// One call to a provider.
///
/// The call may contain secrets, so it has no description.
struct ProviderRequest: Sendable {
    /// The connections that may carry the call (library note 5).
    enum ConnectionUse: Sendable {
        /// A connection of its own for the call.
        ///
        /// If the provider closed a kept connection at the moment of the call, a single-use secret in the call would be lost.
        case single
        /// A connection that stays open for later calls; used for metadata, keys and identity.
        case pooled
    }

    var method: String
    var url: EndpointURL
    var connection: ConnectionUse
    var headers: [(name: String, value: String)] = []
    var body: [UInt8]?
    /// The longest wait for the answer's header; nil if only the time of the whole call is limited.
    var headWithin: Duration?
    /// Returns the fields that are made each time the request is sent, because a DPoP proof must be sent only once.
    var fresh: (@Sendable () throws -> [(name: String, value: String)])?

    static func get(_ url: EndpointURL, accept: String = "application/json") -> ProviderRequest {
        ProviderRequest(method: "GET", url: url, connection: .pooled, headers: [("Accept", accept)])
    }

    /// Returns the request with the fields that are made for this sending.
    func freshened(_ outgoing: HTTPClientRequest) throws -> HTTPClientRequest {
        guard let fresh else { return outgoing }
        var outgoing = outgoing
        for field in try fresh() { outgoing.headers.add(name: field.name, value: field.value) }
        return outgoing
    }
}
