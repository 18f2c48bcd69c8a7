/// The key that a session belongs to, and the client's rules for the evidence of the session's requests.
package struct SessionBinding: Sendable, Equatable {
    /// The key's thumbprint (RFC 7638).
    package let thumbprint: Digest
    package let policy: BindingPolicy

    /// The thumbprint in base64url, in the form that RFC 9449 section 6.1 defines.
    package var jkt: String { Base64URL.encode(thumbprint.bytes) }
}

extension ProviderDirectory {
    /// Returns a session's key, and the rules that its client has now; nil if the session is unbound.
    func binding(of facts: SessionFacts) -> SessionBinding? {
        guard let thumbprint = facts.thumbprint else { return nil }
        let client = self[facts.provider]?.profile.client(facts.client)
        return SessionBinding(thumbprint: thumbprint, policy: client?.binding ?? BindingPolicy())
    }
}
