package import Broker

/// Returns the certificate that a client's tokens are used with; nil if the client has none, or its tokens are unbound.
///
/// `isBound` is true if the present token is bound to a certificate.
package typealias ClientCertificates =
    @Sendable (_ provider: ProviderName, _ client: ClientName, _ isBound: Bool) -> RelayCertificate?
