/// An app's request for a child session.
package struct ChildOrder: Sendable {
    package var kind: ChildKind
    /// The name that distinguishes the child from others of its kind.
    ///
    /// Kind and name together identify the child in its family.
    package var name: String
    package var device: String?
    /// The thumbprint of the child's own device key, which the child proves at its first use; nil for an unbound child.
    package var thumbprint: Digest?

    package init(kind: ChildKind, name: String, device: String? = nil, thumbprint: Digest? = nil) {
        self.kind = kind
        self.name = name
        self.device = device
        self.thumbprint = thumbprint
    }
}
