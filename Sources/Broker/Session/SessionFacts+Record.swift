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
