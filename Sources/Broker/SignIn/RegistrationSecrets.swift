/// The secrets that a registration keeps for its completion, sealed in its row.
package struct RegistrationSecrets: Sendable {
    package var provider: ProviderName
    package var client: ClientName
    package var stateKey: Secret
    /// The provider's identifier for the person (an e-mail address); the app never overrides it.
    package var identifier: String?
    package var fields: [RegistrationField]
    package var device: String?
    /// The thumbprint of the key that must finish the registration.
    package var thumbprint: Digest?

    /// The record to seal.
    package var record: [UInt8] {
        var writer = RecordWriter(boundTo: thumbprint)
        writer.string(provider.text)
        writer.string(client.text)
        writer.string(stateKey.reveal())
        writer.optional(identifier)
        writer.list(fields) { writer, field in
            writer.string(field.name)
            writer.string(field.type.rawValue)
            writer.flag(field.required)
        }
        writer.optional(device)
        return writer.bytes
    }

    /// Reads a record after it was opened.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        var (reader, thumbprint) = try RecordReader.bindable(bytes)
        self.thumbprint = thumbprint
        provider = ProviderName(unchecked: try reader.string())
        client = ClientName(unchecked: try reader.string())
        stateKey = try reader.secret()
        identifier = try reader.optionalString()
        var fields: [RegistrationField] = []
        for _ in 0..<max(0, try reader.integer()) {
            let name = try reader.string()
            guard let type = RegistrationField.Kind(rawValue: try reader.string()) else {
                throw .malformed
            }
            fields.append(RegistrationField(name: name, type: type, required: try reader.flag()))
        }
        self.fields = fields
        device = try reader.optionalString()
    }

    package init(
        provider: ProviderName, client: ClientName, stateKey: Secret, identifier: String?, fields: [RegistrationField],
        device: String?, thumbprint: Digest? = nil
    ) {
        self.provider = provider
        self.client = client
        self.stateKey = stateKey
        self.identifier = identifier
        self.fields = fields
        self.device = device
        self.thumbprint = thumbprint
    }

    /// Opens the secrets of a registration's row; a row that fails to open counts as expired.
    static func open(_ row: RegistrationRow, _ vault: any Vault) throws(BrokerProblem) -> RegistrationSecrets {
        do {
            return try RegistrationSecrets(record: try vault.open(row.sealed, as: .registration, row: row.key))
        } catch {
            if let passing = BrokerProblem(opening: error) { throw passing }
            throw BrokerProblem(
                .stateKeyExpired, privateDetail: "the registration's row does not open, so it was changed or damaged")
        }
    }

    /// Returns the registration as the app sees it.
    func view(expiresAt: WallTime) -> RegistrationView {
        RegistrationView(
            provider: provider, stateKey: stateKey, identifier: identifier, expiresAt: expiresAt, fields: fields)
    }
}
