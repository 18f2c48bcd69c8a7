package import Broker
import NIOCore
package import NIOSSL

/// The certificate and trust roots for an upstream's connections (`upstreams.NAME.tls`), in addition to the trust roots of the
/// relay.
package struct UpstreamTLS: Sendable {
    /// The certificate that is shown now in calls whose token is not bound to a certificate.
    package var certificate: @Sendable () -> RelayCertificate?
    /// Further trust roots.
    package var roots: [NIOSSLCertificate]
    /// The digest that identifies the further trust roots; nil if there are none.
    package var rootsID: Digest?

    package init(
        certificate: @escaping @Sendable () -> RelayCertificate? = { nil }, roots: [NIOSSLCertificate] = [],
        rootsID: Digest? = nil
    ) {
        self.certificate = certificate
        self.roots = roots
        self.rootsID = rootsID
    }
}
