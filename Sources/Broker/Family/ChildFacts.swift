/// The sort of child that a client's sessions may have (`clients.NAME.children.KIND`): an operator's word.
package struct ChildKind: ConfiguredName {
    package let text: String
    package init(unchecked text: String) { self.text = text }

    /// The kind of hand-overs: a session of a web view, which is no child that an app asks for by itself.
    package static let web = ChildKind(unchecked: "web")
}

/// The place of a child session in its parent's family, sealed beside the facts that every session has.
///
/// A class, because of a hundred thousand cached sessions few are children.
package final class ChildFacts: Sendable {
    package let kind: ChildKind
    package let name: String
    /// The digest of its parent's token: sealed, so that nobody moves it into another family.
    package let parent: Digest
    package let parentHandle: SessionHandle

    package init(kind: ChildKind, name: String, parent: Digest, parentHandle: SessionHandle) {
        self.kind = kind
        self.name = name
        self.parent = parent
        self.parentHandle = parentHandle
    }
}

// The record of a child has a format of its own, which a release that knows no families does not read: there it is a row of a
// newer format, never served as a session of its own and never ended.

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

    /// Reads what `begin` wrote, with the thumbprint of the key that the child belongs to.
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

/// The place of a session's row in a family: its parent's row, and which of the parent's children it is.
///
/// A class, because of a hundred thousand cached rows few are children's.
package final class Lineage: Sendable, Equatable {
    /// The digest of the parent's token.
    package let parent: Digest
    /// Index digest of (parent, kind, name): one living child has it at a time.
    package let place: Digest

    package init(parent: Digest, place: Digest) {
        self.parent = parent
        self.place = place
    }

    package static func == (left: Lineage, right: Lineage) -> Bool {
        left.parent == right.parent && left.place == right.place
    }
}

/// A client's rules for the children of one kind.
package struct ChildPolicy: Sendable, Equatable {
    package var lifetimes: SessionLifetimes
    /// The upstreams that the relay calls for them.
    package var upstreams: Set<UpstreamName>
    /// The backends that may ask about them.
    package var backends: Set<BackendName>
    /// Of kind `web`: the origins that a session may be handed over to, and the `SameSite` of its cookie.
    package var origins: Set<String> = []
    package var sameSite = SameSitePolicy.lax

    package init(
        lifetimes: SessionLifetimes = SessionLifetimes(), upstreams: Set<UpstreamName> = [],
        backends: Set<BackendName> = []
    ) {
        self.lifetimes = lifetimes
        self.upstreams = upstreams
        self.backends = backends
    }
}

/// The support of a child session: its parent, found alive with it, and the rules of its kind.
package final class Family: Sendable {
    package let parent: LiveSession
    package let policy: ChildPolicy

    init(parent: LiveSession, policy: ChildPolicy) {
        self.parent = parent
        self.policy = policy
    }
}

extension ProviderDirectory {
    /// Returns the rules for a child by its client's present settings; nil for a kind that is not configured.
    func policy(of child: ChildFacts, _ facts: SessionFacts) -> ChildPolicy? {
        self[facts.provider]?.profile.client(facts.client)?.children[child.kind]
    }
}
