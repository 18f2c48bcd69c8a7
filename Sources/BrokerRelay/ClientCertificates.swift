package import Broker

/// Returns the certificate that is shown with a client's tokens; nil in two cases: the client has no certificate; or the
/// present token and the client's new tokens are unbound.
///
/// `isBound` is true if the present token is bound to a certificate.
package typealias ClientCertificates =
    @Sendable (_ provider: ProviderName, _ client: ClientName, _ isBound: Bool) -> RelayCertificate?
