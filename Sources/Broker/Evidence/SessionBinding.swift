/// The key that a session belongs to, and the evidence that its client's requests may show now.
package struct SessionBinding: Sendable, Equatable {
    /// The key's thumbprint (RFC 7638).
    package let thumbprint: Digest
    package let policy: BindingPolicy

    /// The thumbprint as RFC 9449 section 6.1 writes it.
    package var jkt: String { Base64URL.encode(thumbprint.bytes) }
}

extension ProviderDirectory {
    /// Returns the binding of a session under its client's present settings; nil for an unbound session.
    func binding(of facts: SessionFacts) -> SessionBinding? {
        guard let thumbprint = facts.thumbprint else { return nil }
        let client = self[facts.provider]?.profile.client(facts.client)
        return SessionBinding(thumbprint: thumbprint, policy: client?.binding ?? BindingPolicy())
    }
}
