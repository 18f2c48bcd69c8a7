import Broker

/// A client with the settings and connections that the engine needs.
struct EngineClient: Sendable {
    let settings: ClientSettings
    let profile: ClientProfile
    let wire: WireSettings
    let authenticator: ClientAuthenticator
    /// The configured endpoint for revoking the client's grants.
    let revocation: EndpointURL?
    /// The client's own connections; nil if the client's calls use the connections that all providers share.
    let connections: ClientConnections?
    /// The client's old system (`move_in`), if there is one.
    let oldSystem: OldSystem?
    /// Makes the client's calls.
    var caller: ProviderCaller
    /// The certificate that the client's calls show.
    var certificate: ClientCertificate? { caller.shown?.certificate }

    /// Throws `retryable` if an answer refuses the certificate.
    ///
    /// A server that refuses the certificate has not processed the request, so a code or token in it is unspent.
    func requireCertificate(_ answer: ProviderAnswer) throws(ProviderFailure) {
        guard certificate != nil else { return }
        let proves = authenticator.isByCertificate
        guard
            CertificateRefusal.isPage(answer)
                || proves && [400, 401].contains(answer.status) && answer.object?["error"]?.string == "invalid_client"
        else { return }
        caller.refused("status \(answer.status)")
        throw .retryable(status: answer.status, retryAfter: nil, detail: "the server refuses our certificate")
    }

    /// Returns the tokens, marked as bound to the certificate that the call showed.
    ///
    /// The tokens are marked in two cases: the client's setting `sender_constrained` is `mtls`; or `isCertified` is true.
    func bound(_ tokens: TokenSet, isCertified: Bool = false) -> TokenSet {
        guard profile.senderConstraint == .mtls || isCertified else { return tokens }
        return tokens.bound(to: certificate?.thumbprint)
    }
}
