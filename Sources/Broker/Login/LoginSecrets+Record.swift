extension LoginSecrets {
    /// The record to seal.
    package var record: [UInt8] {
        var writer = RecordWriter(boundTo: thumbprint)
        writer.string(provider.text)
        writer.string(client.text)
        writer.string(redirectURI)
        writer.optional(verifier)
        writer.optional(appChallenge)
        writer.optional(nonce)
        writer.strings(scope)
        writer.optional(issuer.issuer)
        writer.flag(issuer.demanded)
        writer.optional(socialProvider)
        writer.optional(demands.maximumAge)
        writer.flag(providerStarted)
        // Behind what the version before reads.
        writer.flag(demands.isSilent)
        writer.strings(demands.contextClasses)
        writer.optional(demands.claims)
        return writer.bytes
    }

    /// Reads an opened record.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        var (reader, thumbprint) = try RecordReader.bindable(bytes)
        self.init(
            provider: ProviderName(unchecked: try reader.string()), client: ClientName(unchecked: try reader.string()),
            redirectURI: try reader.string(), verifier: try reader.optionalSecret(),
            appChallenge: try reader.optionalString(), nonce: try reader.optionalSecret(),
            scope: try reader.strings(),
            issuer: IssuerExpectation(issuer: try reader.optionalString(), demanded: try reader.flag()),
            socialProvider: try reader.optionalString(), demands: SignInDemands(), providerStarted: false,
            thumbprint: thumbprint)
        demands.maximumAge = try reader.optionalInteger()
        providerStarted = try reader.flag()
        guard !reader.isAtEnd else { return }
        demands.isSilent = try reader.flag()
        demands.contextClasses = try reader.strings()
        demands.claims = try reader.optionalString()
    }

    /// Opens a login's row; one that does not open belongs to no login (`state_mismatch`).
    static func open(_ row: LoginRow, _ context: BrokerContext) throws(BrokerProblem) -> LoginSecrets {
        do {
            return try LoginSecrets(record: try context.vault.open(row.sealed, as: .login, row: row.state))
        } catch {
            if let passing = BrokerProblem(opening: error) { throw passing }
            context.events.emit(.rowDidNotOpen(kind: .login, unknownKey: false))
            throw BrokerProblem(.stateMismatch, privateDetail: "a login row does not open")
        }
    }
}
