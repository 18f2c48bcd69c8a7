package import Broker

/// Returns the certificate that is shown with a client's tokens; nil in two cases: the client has no certificate; or neither the
/// present token nor the client's new tokens are bound to it.
///
/// `isBound` is true if the present token is bound to a certificate.
package typealias ClientCertificates =
    @Sendable (_ provider: ProviderName, _ client: ClientName, _ isBound: Bool) -> RelayCertificate?
