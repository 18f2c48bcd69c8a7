extension LoginSecrets {
    private static let format: UInt8 = 2

    /// The record to seal.
    package var record: [UInt8] {
        var writer = RecordWriter(format: Self.format)
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
        writer.flag(demands.isSilent)
        writer.optional(demands.maximumAge)
        writer.strings(demands.contextClasses)
        writer.optional(demands.claims)
        writer.flag(providerStarted)
        return writer.bytes
    }

    /// Reads an opened record.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        var reader = try RecordReader(bytes, format: Self.format)
        self.init(
            provider: ProviderName(unchecked: try reader.string()), client: ClientName(unchecked: try reader.string()),
            redirectURI: try reader.string(), verifier: try reader.optionalSecret(),
            appChallenge: try reader.optionalString(), nonce: try reader.optionalSecret(),
            scope: try reader.strings(),
            issuer: IssuerExpectation(issuer: try reader.optionalString(), demanded: try reader.flag()),
            socialProvider: try reader.optionalString(), demands: try Self.readDemands(&reader),
            providerStarted: try reader.flag())
    }

    private static func readDemands(_ reader: inout RecordReader) throws(RecordFailure) -> SignInDemands {
        var demands = SignInDemands()
        demands.isSilent = try reader.flag()
        demands.maximumAge = try reader.optionalInteger()
        demands.contextClasses = try reader.strings()
        demands.claims = try reader.optionalString()
        return demands
    }
}
