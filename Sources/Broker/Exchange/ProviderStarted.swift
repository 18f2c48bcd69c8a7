/// Answers arrivals that the provider started (flow D: the Clever portal, the Clover dashboard).
///
/// Their code is never redeemed; the app gets a fresh login bound to a state instead (SEC-15).
struct ProviderStarted: Sendable {
    let context: BrokerContext

    /// Returns the `login_required` of an arrival, or `invalid_callback` when it already belonged to such a login, so that
    /// two arrivals in a row do not loop.
    func loginRequired(
        _ callback: CallbackURL, _ input: ForwardCodeInput
    ) async throws(BrokerProblem) -> BrokerProblem {
        guard let owner = context.providers.owner(ofRedirect: callback.target),
            let provider = context.providers[owner.provider]
        else { throw BrokerProblem(.invalidCallback, privateDetail: "nobody's redirect URI") }
        if let named = input.provider, named != owner.provider {
            throw BrokerProblem(.invalidCallback, privateDetail: "another provider's redirect URI")
        }
        guard let client = provider.profile.client(input.client ?? owner.client) else {
            throw BrokerProblem(.invalidRequest, errors: [FieldFault("/client", .notAllowed)])
        }
        if let error = callback.parameters["error"] { return BrokerProblem(callbackError: error) }
        if try await answersProviderStarted(provider.profile.name, input.loginToken) {
            return BrokerProblem(.invalidCallback, privateDetail: "a second arrival without a state in a row")
        }
        let login = try await StartLogin(context).restart(
            at: provider, client: client, loginToken: input.loginToken, providerStarted: true,
            charge: input.charge)
        return BrokerProblem(.loginRequired, login: login)
    }

    private func answersProviderStarted(
        _ provider: ProviderName, _ loginToken: Secret?
    ) async throws(BrokerProblem) -> Bool {
        guard let loginToken else { return false }
        let forward = BrokerLoginForward(context: context)
        let rows: [LoginRow]
        do throws(StoreFailure) {
            rows = try await context.store.pendingLogins(
                loginToken: context.vault.digest(loginToken), now: context.clock.now())
        } catch { throw BrokerProblem(error) }
        for row in rows {
            let secrets = try forward.open(row)
            if secrets.providerStarted, secrets.provider == provider { return true }
        }
        return false
    }
}
