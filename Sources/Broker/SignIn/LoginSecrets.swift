/// The values that a login needs at its callback, sealed in its row.
package struct LoginSecrets: Sendable {
    package var provider: ProviderName
    package var client: ClientName
    package var redirectURI: String
    /// The broker's own PKCE verifier; nil if the app has the verifier, or if PKCE is not used.
    package var verifier: Secret?
    /// The app's challenge, if the app has the verifier (SEC-03).
    package var appChallenge: String?
    package var nonce: Secret?
    package var scope: [String]
    package var issuer: IssuerExpectation
    package var socialProvider: String?
    /// The authorization request's demands on the sign-in.
    package var demands: SignInDemands
    /// Whether the login was made for a callback that the provider started (flow D).
    ///
    /// If the callback of this login also arrives without a state, the broker makes no further login, to prevent a loop.
    package var providerStarted: Bool
    /// The thumbprint of the device key that must finish the login; nil for an unbound login.
    ///
    /// The thumbprint is sealed because it links the logins of one device.
    package var thumbprint: Digest?
    /// The key that the provider was asked to bind the code and the tokens to; nil if they are unbound.
    package var key: ProofKeyPair?
    /// The app's demand on the sign-in, and the session that the demand is for.
    package var stepUp: LoginStepUp?

    package init(
        provider: ProviderName, client: ClientName, redirectURI: String, verifier: Secret?, appChallenge: String?,
        nonce: Secret?, scope: [String], issuer: IssuerExpectation, socialProvider: String?, demands: SignInDemands,
        providerStarted: Bool, thumbprint: Digest? = nil, key: ProofKeyPair? = nil,
        stepUp: LoginStepUp? = nil
    ) {
        self.provider = provider
        self.client = client
        self.redirectURI = redirectURI
        self.verifier = verifier
        self.appChallenge = appChallenge
        self.nonce = nonce
        self.scope = scope
        self.issuer = issuer
        self.socialProvider = socialProvider
        self.demands = demands
        self.providerStarted = providerStarted
        self.thumbprint = thumbprint
        self.key = key
        self.stepUp = stepUp
    }
}

extension LoginSecrets {
    /// The record to seal.
    package var record: [UInt8] {
        var writer =
            stepUp?.session.map { LoginStepUp.begin($0, boundTo: thumbprint, holding: key) }
            ?? RecordWriter(boundTo: thumbprint, holding: key)
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
        // An older release reads only the members above.
        writer.flag(demands.isSilent)
        writer.strings(demands.contextClasses)
        writer.optional(demands.claims)
        LoginStepUp.write(stepUp?.demand, to: &writer)
        return writer.bytes
    }

    /// Reads an opened record.
    package init(record bytes: [UInt8]) throws(RecordFailure) {
        let stepUp = try LoginStepUp.beginning(bytes)
        var reader: RecordReader
        let (thumbprint, key): (Digest?, ProofKeyPair?)
        if let stepUp {
            (reader, thumbprint, key) = (stepUp.reader, stepUp.thumbprint, stepUp.key)
        } else {
            (reader, thumbprint, key) = try RecordReader.holding(bytes)
        }
        self.init(
            provider: ProviderName(unchecked: try reader.string()), client: ClientName(unchecked: try reader.string()),
            redirectURI: try reader.string(), verifier: try reader.optionalSecret(),
            appChallenge: try reader.optionalString(), nonce: try reader.optionalSecret(),
            scope: try reader.strings(),
            issuer: IssuerExpectation(issuer: try reader.optionalString(), demanded: try reader.flag()),
            socialProvider: try reader.optionalString(), demands: SignInDemands(), providerStarted: false,
            thumbprint: thumbprint, key: key)
        demands.maximumAge = try reader.optionalInteger()
        providerStarted = try reader.flag()
        guard !reader.isAtEnd else { return }
        demands.isSilent = try reader.flag()
        demands.contextClasses = try reader.strings()
        demands.claims = try reader.optionalString()
        guard !reader.isAtEnd else { return }
        self.stepUp = LoginStepUp(demand: try LoginStepUp.demand(&reader), session: stepUp?.session)
    }

    /// Opens a login's row; throws `state_mismatch` for a row that fails to open.
    static func open(_ row: LoginRow, _ context: BrokerContext) throws(BrokerProblem) -> LoginSecrets {
        do {
            return try LoginSecrets(record: try context.vault.open(row.sealed, as: .login, row: row.state))
        } catch {
            if let passing = BrokerProblem(opening: error) { throw passing }
            context.events.emit(.rowDidNotOpen(kind: .login, unknownKey: false))
            throw BrokerProblem(
                .stateMismatch, privateDetail: "the login's row does not open, so it was changed or damaged")
        }
    }
}
