/// Completes a Zephr partial registration by its state key (flow E).
package struct FinishRegistration: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Sends the registration to Zephr with one call, and makes the session.
    ///
    /// For 10 minutes, the same starter with the same attributes gets the session again.
    package func finish(_ input: FinishRegistrationInput) async throws(BrokerProblem) -> SignedIn {
        guard let provider = context.providers[input.provider] else { throw BrokerProblem(.providerNotFound) }
        guard provider is any PartialRegistering else { throw BrokerProblem(.clientNotAllowed) }
        if let named = input.client, provider.profile.client(named) == nil {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/client", .notAllowed)]))
        }
        let loginToken = try LoginToken.checked(input.loginToken)
        let name = provider.profile.name.text
        let registrationKey = context.vault.index(.stateKey, [name, input.stateKey.reveal()])
        let (row, isGuess) = try await input.charge.forWrongTokens { () async throws(BrokerProblem) in
            try await registration(registrationKey, provider, input, loginToken)
        }
        // An unknown state key was already charged as a wrong token, so a second charge would be too much.
        let charge = isGuess ? Charge.nobody : input.charge
        return try await charge.forWrongTokens { () async throws(BrokerProblem) in
            try await finish(input, provider, row, loginToken)
        }
    }

    private func finish(
        _ input: FinishRegistrationInput, _ provider: any ProviderClient, _ row: RegistrationRow, _ loginToken: Secret?
    ) async throws(BrokerProblem) -> SignedIn {
        if let bound = row.loginTokenDigest {
            guard let loginToken, context.vault.digest(loginToken) == bound else { throw BrokerProblem(.loginNotYours) }
        }
        let secrets = try RegistrationSecrets.open(row, context.vault)
        if let named = input.client, named != secrets.client { throw BrokerProblem(.loginNotYours) }
        try Self.check(input.attributes, secrets.fields)
        guard secrets.provider == provider.profile.name, let client = provider.profile.client(secrets.client) else {
            throw BrokerProblem(.stateKeyExpired)
        }
        let binding = try await binding(row.key, secrets, client, input)
        let plan = ExchangePlan(
            key: context.vault.index(
                .registrationRequest,
                [provider.profile.name.text, input.stateKey.reveal(), Self.canonical(input.attributes)]),
            proof: loginToken, gate: .registration(row.key), provider: provider, client: client,
            call: .register(
                RegistrationRequest(
                    client: client.name, stateKey: input.stateKey, attributes: input.attributes,
                    identifier: secrets.identifier)),
            device: secrets.device, presentedSession: input.presentedSession, loginToken: loginToken,
            charge: input.charge, binding: binding)
        guard case .signedIn(let signedIn) = try await ExchangeRunner(context: context).run(plan) else {
            throw BrokerProblem(
                .providerError, privateDetail: "the provider answered a registration with another partial registration")
        }
        return signedIn
    }

    /// Requires the device key that the registration is bound to.
    ///
    /// For an unbound registration, the client's present setting decides whether a proof is required.
    private func binding(
        _ key: Digest, _ secrets: RegistrationSecrets, _ client: ClientProfile, _ input: FinishRegistrationInput
    ) async throws(BrokerProblem) -> SignInKey {
        let proof = SignInProof(context: context)
        guard let thumbprint = secrets.thumbprint else {
            return try proof.look(input.evidence, of: client, at: secrets.provider)
        }
        let proved = try await proof.demand(
            input.evidence, of: client.name, at: secrets.provider, paidBy: key, input.charge)
        guard proved == thumbprint else {
            throw BrokerProblem(.loginNotYours, privateDetail: "the proof is by another key than the registration's")
        }
        return .proved(thumbprint)
    }

    /// Checks all attributes against the fields that the registration needs, before Zephr does.
    ///
    /// Zephr would report only the first fault, and would spend the state key for it.
    private static func check(
        _ attributes: [(name: String, value: JSONValue)], _ fields: [RegistrationField]
    ) throws(BrokerProblem) {
        guard !fields.isEmpty else { return }
        var faults: [FieldFault] = []
        for attribute in attributes {
            // `fields` are the fields that Zephr lacks. Zephr may accept further attributes, so attributes with other names are
            // left unchecked.
            guard let field = fields.first(where: { $0.name.hasBytes(of: attribute.name) }) else { continue }
            if !field.accepts(attribute.value) {
                faults.append(FieldFault(JSONPointer.make(["attributes", attribute.name]), .wrongType))
            }
        }
        for field in fields where field.required {
            let value = attributes.first { $0.name.hasBytes(of: field.name) }?.value
            if value == nil || value?.string?.isEmpty == true {
                faults.append(FieldFault(JSONPointer.make(["attributes", field.name]), .required))
            }
        }
        guard faults.isEmpty else { throw BrokerProblem(.invalidRequest, with: .fields(faults)) }
    }

    /// Returns the stored registration, or a new one for an unknown state key.
    ///
    /// An unknown state key may be a guess, and is accepted only from clients that start logins themselves. It is charged as a
    /// start and as a wrong token before its row is made.
    private func registration(
        _ key: Digest, _ provider: any ProviderClient, _ input: FinishRegistrationInput, _ loginToken: Secret?
    ) async throws(BrokerProblem) -> (row: RegistrationRow, isGuess: Bool) {
        do {
            if let row = try await context.store.registration(key) { return (row, false) }
            let client = try StartLogin.client(input.client, of: provider.profile)
            guard client.login != .broker else { throw BrokerProblem(.stateKeyExpired) }
            let now = context.clock.now()
            let secrets = RegistrationSecrets(
                provider: provider.profile.name, client: client.name, stateKey: input.stateKey, identifier: nil,
                fields: [], device: nil)
            let row = RegistrationRow(
                key: key, loginTokenDigest: loginToken.map(context.vault.digest), createdAt: now,
                expiresAt: now.advanced(by: context.settings.registrationLifetime),
                sealed: try context.vault.seal(secrets.record, as: .registration, row: key))
            try input.charge.take(
                .registration, for: key, lasting: context.settings.registrationLifetime, isGuess: true)
            do { try await context.store.insertRegistration(row) } catch {
                input.charge.drop(.registration, for: key)
                throw error
            }
            return (try await context.store.registration(key) ?? row, true)
        } catch { throw BrokerProblem(storing: error) }
    }

    /// Returns the attributes as a text that does not depend on their order.
    private static func canonical(_ attributes: [(name: String, value: JSONValue)]) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            for attribute in attributes.sorted(by: { $0.name < $1.name }) {
                writer.member(attribute.name, attribute.value)
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
