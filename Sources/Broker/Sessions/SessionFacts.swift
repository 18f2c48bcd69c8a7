/// The facts that a session row seals in addition to the tokens, for example its owner and its lifetimes.
package struct SessionFacts: Sendable {
    package var provider: ProviderName
    package var client: ClientName
    package var subject: String
    package var identity: [(name: String, value: JSONValue)]
    package var unverified: [(name: String, value: JSONValue)]
    package var scope: [String]
    package var device: String?
    /// The client's lifetimes at login, because a later change of the configuration must not end sessions unexpectedly.
    package var lifetimes: SessionLifetimes
    /// The strength, methods and time of the user's sign-in; only a sign-in changes these facts.
    ///
    /// The values that a refreshed id_token must repeat (SEC-59) are stored with the tokens instead.
    package var signIn: SignInFacts
    /// The thumbprint of the device key that the session belongs to (RFC 7638).
    ///
    /// The thumbprint is sealed because it links the sessions of one device.
    package var thumbprint: Digest?
    /// The session's parent, kind and name; nil for a top-level session.
    package var child: ChildFacts?
    /// The version of the access token from a step-up that brought no refresh token; nil if all tokens of the session come from
    /// one sign-in.
    ///
    /// The session then keeps its older refresh token. Access tokens with a higher version come from that refresh token, so they
    /// belong to the grant of the sign-in before the step-up.
    package var lentVersion: Int64?
    /// The last step-up; nil before the first step-up, or if an older release has sealed the facts again since then.
    package var lastStepUp: StepUpNote?
    /// The beginning of the old system's session that this session was moved from; nil for other sessions.
    package var oldCreatedAt: WallTime?

    package init(
        provider: ProviderName, client: ClientName, subject: String, identity: [(name: String, value: JSONValue)],
        unverified: [(name: String, value: JSONValue)], scope: [String], device: String?, lifetimes: SessionLifetimes,
        signIn: SignInFacts = SignInFacts(), thumbprint: Digest? = nil, child: ChildFacts? = nil
    ) {
        self.provider = provider
        self.client = client
        self.subject = subject
        self.identity = identity
        self.unverified = unverified
        self.scope = scope
        self.device = device
        self.lifetimes = lifetimes
        self.signIn = signIn
        self.thumbprint = thumbprint
        self.child = child
    }

    /// Returns a child's facts, with identity and scope taken from its parent.
    ///
    /// After the child was made, a step-up may have changed the identity, and a refresh may have changed the scope.
    func inheriting(_ parent: SessionFacts) -> SessionFacts {
        var facts = self
        facts.subject = parent.subject
        facts.identity = parent.identity
        facts.unverified = parent.unverified
        facts.scope = parent.scope
        return facts
    }
}

extension SessionFacts {
    /// The record to seal.
    package var record: [UInt8] {
        var writer = child.map { $0.begin(boundTo: thumbprint) } ?? RecordWriter(boundTo: thumbprint)
        writer.string(provider.text)
        writer.string(client.text)
        writer.string(subject)
        writer.claims(identity)
        writer.claims(unverified)
        writer.strings(scope)
        writer.optional(device)
        writer.integer(lifetimes.idle.wholeMilliseconds)
        writer.integer(lifetimes.absolute.wholeMilliseconds)
        writer.optional(signIn.authenticatedAt)
        // Version 0.1.0 stops reading here, and drops the following members when it seals the facts again.
        let hasMore = lentVersion != nil || lastStepUp != nil || oldCreatedAt != nil
        if signIn.contextClass != nil || !signIn.methods.isEmpty || hasMore {
            writer.optional(signIn.contextClass)
            writer.strings(signIn.methods)
        }
        if hasMore { writer.integer(lentVersion ?? Self.lendsNothing) }
        if lastStepUp != nil || oldCreatedAt != nil { (lastStepUp ?? .none).write(to: &writer) }
        if let oldCreatedAt { writer.integer(oldCreatedAt.milliseconds) }
        return writer.bytes
    }

    /// Opens the facts of a row.
    ///
    /// Throws if this process does not know the key or the format. Throws `malformed` if the row's parent is not the parent
    /// in its facts, because such a row was changed.
    package static func open(_ row: SessionRow, _ vault: any Vault) throws -> SessionFacts {
        let facts = try SessionFacts(record: try vault.open(row.facts, as: .session, row: row.tokenDigest))
        guard facts.child?.parent == row.lineage?.parent else { throw RecordFailure.malformed }
        return facts
    }

    /// Reads an opened record.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        var (reader, thumbprint, child) = try Self.beginning(bytes)
        self.init(
            provider: ProviderName(unchecked: try reader.string()), client: ClientName(unchecked: try reader.string()),
            subject: try reader.string(), identity: try reader.claims(), unverified: try reader.claims(),
            scope: try reader.strings(), device: try reader.optionalString(),
            lifetimes: SessionLifetimes(
                idle: .milliseconds(try reader.integer()), absolute: .milliseconds(try reader.integer())),
            signIn: SignInFacts(authenticatedAt: try reader.optionalInteger()), thumbprint: thumbprint, child: child)
        guard !reader.isAtEnd else { return }
        signIn.contextClass = try reader.optionalString()
        signIn.methods = try reader.strings()
        guard !reader.isAtEnd else { return }
        let lent = try reader.integer()
        lentVersion = lent == Self.lendsNothing ? nil : lent
        guard !reader.isAtEnd else { return }
        let note = try StepUpNote(&reader)
        lastStepUp = note == .none ? nil : note
        guard !reader.isAtEnd else { return }
        oldCreatedAt = WallTime(milliseconds: try reader.integer())
    }

    /// The value that is written for `lentVersion` if it is nil and another member follows.
    private static let lendsNothing: Int64 = -1

    private static func beginning(
        _ bytes: [UInt8]
    ) throws(RecordFailure) -> (reader: RecordReader, thumbprint: Digest?, child: ChildFacts?) {
        guard bytes.first == ChildFacts.format else {
            let (reader, thumbprint) = try RecordReader.bindable(bytes)
            return (reader, thumbprint, nil)
        }
        var reader = try RecordReader(bytes, format: ChildFacts.format)
        let (child, thumbprint) = try ChildFacts.read(&reader)
        return (reader, thumbprint, child)
    }
}
