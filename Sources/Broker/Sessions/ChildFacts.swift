/// A child session's parent, kind and name, sealed in addition to the facts that every session has.
///
/// The type is a class, so a cached top-level session stores only a nil reference.
package final class ChildFacts: Sendable {
    package let kind: ChildKind
    package let name: String
    /// The digest of the parent's token.
    ///
    /// The seal prevents an attacker from moving the child into another family.
    package let parent: Digest
    package let parentHandle: SessionHandle

    package init(kind: ChildKind, name: String, parent: Digest, parentHandle: SessionHandle) {
        self.kind = kind
        self.name = name
        self.parent = parent
        self.parentHandle = parentHandle
    }
}

// The record of a child has a format of its own. For a release without child sessions, it is a record of a newer format. So such
// a release leaves the child's row unchanged and never serves the child as a top-level session.

extension ChildFacts {
    static let format: UInt8 = 3

    /// Begins the record of a child's facts.
    func begin(boundTo thumbprint: Digest?) -> RecordWriter {
        var writer = RecordWriter(format: Self.format)
        writer.optional(thumbprint.map { Base64URL.encode($0.bytes) })
        writer.string(kind.text)
        writer.string(name)
        writer.string(Base64URL.encode(parent.bytes))
        writer.string(parentHandle.text)
        return writer
    }

    /// Reads the record that `begin` wrote, with the thumbprint of the child's key.
    static func read(_ reader: inout RecordReader) throws(RecordFailure) -> (facts: ChildFacts, thumbprint: Digest?) {
        let thumbprint = try reader.optionalString()
        let kind = ChildKind(unchecked: try reader.string())
        let name = try reader.string()
        let bound = thumbprint.flatMap { Base64URL.decode($0) }.flatMap(Digest.init)
        guard let parent = Base64URL.decode(try reader.string()).flatMap(Digest.init),
            let handle = SessionHandle(try reader.string()), (bound == nil) == (thumbprint == nil)
        else { throw .malformed }
        return (ChildFacts(kind: kind, name: name, parent: parent, parentHandle: handle), bound)
    }
}

/// The living parent of a child session, with the rules of the child's kind.
package final class Family: Sendable {
    package let parent: LiveSession
    package let policy: ChildPolicy

    init(parent: LiveSession, policy: ChildPolicy) {
        self.parent = parent
        self.policy = policy
    }
}

extension ProviderDirectory {
    /// Returns the rules for a child from its client's present settings; nil if the settings no longer have the child's kind.
    func policy(of child: ChildFacts, _ facts: SessionFacts) -> ChildPolicy? {
        self[facts.provider]?.profile.client(facts.client)?.children[child.kind]
    }
}
