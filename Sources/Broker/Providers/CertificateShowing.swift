/// A provider to which the broker shows client certificates (RFC 8705).
package protocol CertificateShowing: ProviderClient {
    /// Returns the thumbprint of the certificate that the broker shows for a client now; nil if it shows none.
    func certificate(of client: ClientName) -> String?
}
