package import Broker

/// Returns the certificate that a client's tokens are used with; nil if the client has no certificate.
///
/// `isBound` is true if the present token is bound to a certificate.
package typealias ClientCertificates =
    @Sendable (_ provider: ProviderName, _ client: ClientName, _ isBound: Bool) -> RelayCertificate?
