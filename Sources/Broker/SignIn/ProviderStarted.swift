/// Answers callbacks that the provider started (flow D: the Clever portal, the Clover dashboard).
///
/// Their code is never redeemed. The app gets a new login with a state instead (SEC-15).
struct ProviderStarted: Sendable {
    let context: BrokerContext

    /// Returns the `login_required` problem for a callback that the provider started.
    ///
    /// If the app already has a pending login from such a callback, the result is `invalid_callback`, to prevent a loop.
    func loginRequired(
        _ callback: CallbackURL, _ input: ForwardCodeInput
    ) async throws(BrokerProblem) -> BrokerProblem {
        guard let owner = context.providers.owner(ofRedirect: callback.target),
            let provider = context.providers[owner.provider]
        else { throw BrokerProblem(.invalidCallback, privateDetail: "the address is not a redirect URI of any client") }
        if let named = input.provider, named != owner.provider {
            throw BrokerProblem(.invalidCallback, privateDetail: "the address is another provider's redirect URI")
        }
        if let named = input.client, named != owner.client {
            throw BrokerProblem(.invalidCallback, privateDetail: "the address is another client's redirect URI")
        }
        guard let client = provider.profile.client(owner.client) else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/client", .notAllowed)]))
        }
        if let error = CallbackError(callback.parameters) {
            return context.refusal(error, provider: owner.provider, client: owner.client)
        }
        let key = try SignInProof(context: context).look(input.evidence, of: client, at: owner.provider)
        if try await answersProviderStarted(provider.profile.name, input.loginToken) {
            return BrokerProblem(
                .invalidCallback,
                privateDetail: "a second arrival without a state, after a login was offered for the first")
        }
        let login = try await StartLogin(context).restart(
            at: provider, client: client, parameters: Self.kept(callback, provider.profile.kind, client),
            loginToken: input.loginToken, providerStarted: true, key: key, charge: input.charge)
        return BrokerProblem(.loginRequired, with: .login(login))
    }

    /// Returns the callback's parameters that the new login uses again.
    ///
    /// The district from Clever's portal is used again, so that the user selects the district only one time. A callback
    /// without a state is easy to forge. So the district must have the form of Clever's ids, and the client must allow the
    /// parameter.
    private static func kept(
        _ callback: CallbackURL, _ kind: ProviderKind, _ client: ClientProfile
    ) -> [(name: String, value: String)] {
        guard kind == .clever, client.allowedParameters.contains("district_id"),
            let district = callback.parameters["district_id"], district.utf8.count == 24,
            district.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
        else { return [] }
        return [("district_id", district)]
    }

    private func answersProviderStarted(
        _ provider: ProviderName, _ loginToken: Secret?
    ) async throws(BrokerProblem) -> Bool {
        guard let loginToken else { return false }
        let rows: [LoginRow]
        do throws(StoreFailure) {
            rows = try await context.store.pendingLogins(
                loginTokenDigest: context.vault.digest(loginToken), now: context.clock.now())
        } catch { throw BrokerProblem(error) }
        for row in rows {
            let secrets = try LoginSecrets.open(row, context)
            if secrets.providerStarted, secrets.provider == provider { return true }
        }
        return false
    }
}
