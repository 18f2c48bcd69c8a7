/// What a session row seals besides the tokens: whose it is, and how long it lives.
package struct SessionFacts: Sendable {
    package var provider: ProviderName
    package var client: ClientName
    package var subject: String
    package var identity: [(name: String, value: JSONValue)]
    package var unverified: [(name: String, value: JSONValue)]
    package var scope: [String]
    package var device: String?
    /// The client's lifetimes at login, so that a later change of configuration ends nothing by surprise.
    package var lifetimes: SessionLifetimes
    /// `auth_time`, which a refreshed id_token must repeat (SEC-59).
    package var authenticatedAt: Int64?
    /// The thumbprint of the key that it belongs to (RFC 7638); sealed, because it links sessions of one device.
    package var thumbprint: Digest?

    package init(
        provider: ProviderName, client: ClientName, subject: String, identity: [(name: String, value: JSONValue)],
        unverified: [(name: String, value: JSONValue)], scope: [String], device: String?, lifetimes: SessionLifetimes,
        authenticatedAt: Int64?, thumbprint: Digest? = nil
    ) {
        self.provider = provider
        self.client = client
        self.subject = subject
        self.identity = identity
        self.unverified = unverified
        self.scope = scope
        self.device = device
        self.lifetimes = lifetimes
        self.authenticatedAt = authenticatedAt
        self.thumbprint = thumbprint
    }
}

extension SessionFacts {
    /// The record to seal.
    package var record: [UInt8] {
        var writer = RecordWriter(boundTo: thumbprint)
        writer.string(provider.text)
        writer.string(client.text)
        writer.string(subject)
        writer.claims(identity)
        writer.claims(unverified)
        writer.strings(scope)
        writer.optional(device)
        writer.integer(lifetimes.idle.wholeMilliseconds)
        writer.integer(lifetimes.absolute.wholeMilliseconds)
        writer.optional(authenticatedAt)
        return writer.bytes
    }

    /// Opens the facts of a row, which another version, or a key that the ring lacks, may have sealed.
    static func open(_ row: SessionRow, _ vault: any Vault) throws -> SessionFacts {
        try SessionFacts(record: try vault.open(row.facts, as: .session, row: row.token))
    }

    /// Reads an opened record.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        var (reader, thumbprint) = try RecordReader.bindable(bytes)
        self.init(
            provider: ProviderName(unchecked: try reader.string()), client: ClientName(unchecked: try reader.string()),
            subject: try reader.string(), identity: try reader.claims(), unverified: try reader.claims(),
            scope: try reader.strings(), device: try reader.optionalString(),
            lifetimes: SessionLifetimes(
                idle: .milliseconds(try reader.integer()), absolute: .milliseconds(try reader.integer())),
            authenticatedAt: try reader.optionalInteger(), thumbprint: thumbprint)
    }
}

/// How long a client's sessions live (SEC-40).
package struct SessionLifetimes: Sendable, Equatable {
    /// Ends a session that nobody used for this long.
    package var idle: Duration
    /// Ends a session this long after its login, whatever happens.
    package var absolute: Duration

    package init(idle: Duration = .seconds(30 * 86_400), absolute: Duration = .seconds(90 * 86_400)) {
        self.idle = idle
        self.absolute = absolute
    }
}
