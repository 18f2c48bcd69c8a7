package import Broker

/// Returns the certificate for the connections that carry a client's tokens; nil if the client has none.
///
/// Also returns nil if the session's token is unbound, and the client's configuration binds no new tokens. `isBound` is true if
/// the session's token is bound to a certificate.
package typealias ClientCertificates =
    @Sendable (_ provider: ProviderName, _ client: ClientName, _ isBound: Bool) -> RelayCertificate?
