/// Plans the exchange of a Zephr callback (flow E).
///
/// The callback carries no state, so its login is found by the login token and the redirect URI.
struct ZephrForward: Sendable {
    let context: BrokerContext

    /// Returns the exchange, or nil if the callback is not Zephr's.
    func plan(_ callback: CallbackURL, _ input: ForwardCodeInput) async throws(BrokerProblem) -> ExchangePlan? {
        if let login = try await pendingLogin(callback, input) {
            let binding = try await BrokerLoginForward(context: context).binding(
                login.row, login.secrets, login.client, input)
            return try await plan(
                callback, input, login.provider, login.client, gate: .login(login.row.state), binding: binding)
        }
        guard let name = input.provider, let provider = context.providers[name], provider.profile.kind == .zephr else {
            return try await used(callback, input)
        }
        let client = try StartLogin.client(input.client, of: provider.profile)
        guard client.redirectURI(callback.target) != nil else {
            throw BrokerProblem(.invalidCallback, privateDetail: "the address is not in the client's `redirect_uris`")
        }
        guard client.login != .broker else {
            if let plan = try await used(callback, input) { return plan }
            throw BrokerProblem(.clientNotAllowed)
        }
        return try await plan(
            callback, input, provider, client, gate: .none, binding: try look(client, provider, input))
    }

    private func look(
        _ client: ClientProfile, _ provider: any ProviderClient, _ input: ForwardCodeInput
    ) throws(BrokerProblem) -> SignInKey {
        try SignInProof(context: context).look(input.evidence, of: client, at: provider.profile.name)
    }

    /// Returns the existing exchange of a forward that is sent again, for a callback whose login is no longer pending.
    private func used(_ callback: CallbackURL, _ input: ForwardCodeInput) async throws(BrokerProblem) -> ExchangePlan? {
        guard let owner = context.providers.owner(ofRedirect: callback.target),
            let provider = context.providers[owner.provider], provider.profile.kind == .zephr,
            let client = provider.profile.client(owner.client)
        else { return nil }
        let plan = try await plan(
            callback, input, provider, client, gate: .none, binding: try look(client, provider, input))
        let standing: ExchangeRow?
        do throws(StoreFailure) { standing = try await context.store.exchange(plan.key) } catch {
            throw BrokerProblem(error)
        }
        guard standing != nil else {
            throw BrokerProblem(.stateMismatch, privateDetail: "the starter has no pending login")
        }
        return plan
    }

    private struct Found {
        let row: LoginRow
        let secrets: LoginSecrets
        let provider: any ProviderClient
        let client: ClientProfile
    }

    private func pendingLogin(_ callback: CallbackURL, _ input: ForwardCodeInput) async throws(BrokerProblem) -> Found?
    {
        guard let loginToken = input.loginToken else { return nil }
        let rows: [LoginRow]
        do throws(StoreFailure) {
            rows = try await context.store.pendingLogins(
                loginTokenDigest: context.vault.digest(loginToken), now: context.clock.now())
        } catch { throw BrokerProblem(error) }
        var unreadable: BrokerProblem?
        for row in rows {
            let secrets: LoginSecrets
            do throws(BrokerProblem) { secrets = try LoginSecrets.open(row, context) } catch {
                // Skip a login that is unreadable now. The fault is thrown only if no readable login fits.
                if error.code == .storeUnavailable { unreadable = error }
                continue
            }
            guard RedirectURI.areSame(secrets.redirectURI, callback.target),
                let provider = context.providers[secrets.provider],
                provider.profile.kind == .zephr, let client = provider.profile.client(secrets.client)
            else { continue }
            return Found(row: row, secrets: secrets, provider: provider, client: client)
        }
        if let unreadable { throw unreadable }
        return nil
    }

    /// Returns the exchange's key, so that each login token uses a Zephr session only one time.
    ///
    /// Several logins may use the same Zephr session.
    ///
    /// A user with a session at Zephr gets the same session id at the next login. If the forward has no login token, the key
    /// is made from the session id and the current period of `replayWindow`. In a later period, the same id makes a new
    /// exchange.
    private func usedOnce(
        _ name: String, _ session: String, _ loginToken: Secret?
    ) async throws(BrokerProblem) -> Digest {
        if let loginToken {
            let starter = Base64URL.encode(context.vault.digest(loginToken).bytes)
            return context.vault.index(.zephrSession, [name, session, starter])
        }
        let window = context.settings.replayWindow
        let now = context.clock.now()
        let span = max(window.wholeSeconds, 1)
        let period = now.seconds / span
        func key(_ period: Int64) -> Digest { context.vault.index(.zephrSession, [name, session, String(period)]) }
        // The same forward may have been answered shortly before in another period, or by a replica whose clock differs. So
        // look at both neighbours of the period.
        for neighbour in [period - 1, period + 1] {
            let found: ExchangeRow?
            do throws(StoreFailure) { found = try await context.store.exchange(key(neighbour)) } catch {
                throw BrokerProblem(error)
            }
            if let found, now.since(found.createdAt) <= window { return key(neighbour) }
        }
        return key(period)
    }

    private func plan(
        _ callback: CallbackURL, _ input: ForwardCodeInput, _ provider: any ProviderClient, _ client: ClientProfile,
        gate: ExchangeGate, binding: SignInKey
    ) async throws(BrokerProblem) -> ExchangePlan {
        let parameters = callback.parameters
        let name = provider.profile.name.text
        let key: Digest
        let call: ExchangePlan.Call
        switch parameters["status"] {
        case "success":
            guard let session = parameters["session_id"], !session.isEmpty else {
                throw BrokerProblem(
                    .invalidCallback, privateDetail: "the callback reports success, but has no session_id")
            }
            key = try await usedOnce(name, session, input.loginToken)
            call = .zephrSession(Secret(session))
        case "partial":
            guard let stateKey = parameters["state_key"], !stateKey.isEmpty else {
                throw BrokerProblem(
                    .invalidCallback, privateDetail: "the callback reports a partial sign-in, but has no state_key")
            }
            key = context.vault.index(.code, [name, stateKey])
            call = .zephrPartial(stateKey: Secret(stateKey), identifier: parameters["identifier"])
        case "failure", "error":
            // The message is the provider's free text, so users never see it. The log gets at most 100 characters of the
            // message.
            let message = parameters["message"] ?? ""
            throw BrokerProblem(
                ZephrRefusal.isUsers(message) ? .accessDenied : .providerError,
                privateDetail: "Zephr callback failure: " + Self.bounded(message))
        default:
            throw BrokerProblem(
                .invalidCallback, privateDetail: "the callback has a status that Zephr does not document")
        }
        return ExchangePlan(
            key: key, proof: try LoginToken.checked(input.loginToken), gate: gate, provider: provider, client: client,
            call: call, device: input.device, presentedSession: input.presentedSession, loginToken: input.loginToken,
            charge: input.charge, binding: binding)
    }

    /// Returns at most 100 characters of plain ASCII, for the log.
    private static func bounded(_ message: String) -> String {
        let bytes = message.utf8.prefix(100).filter { (0x20...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// Decides from the message of a Zephr failure whether the user refused.
///
/// Zephr has no error code for a refusal by the user. An unclear message counts as a fault of the provider. If the user did
/// refuse, the cost is small, because the app offers another attempt. A fault that counted as a refusal would stay unnoticed.
enum ZephrRefusal {
    /// Beginnings of words about the site's setup.
    ///
    /// A failure counts as a fault if its message has a word with such a beginning.
    private static let technical = ["redirect", "client", "secret", "config", "upstream", "server", "scope", "http"]
    /// The words that may come before the word that shows the refusal.
    private static let openings: Set<String> = [
        "the", "user", "access", "permission", "consent", "authorization", "authorisation", "login", "sign", "in",
        "was",
        "has", "is", "been", "by",
    ]
    private static let refusals = ["denied", "deny", "denies", "cancel", "refuse", "declin", "abort"]

    static func isUsers(_ message: String) -> Bool {
        let words = message.lowercased().prefix(200).split { !$0.isLetter }.map(String.init)
        guard !words.contains(where: { word in technical.contains { word.hasPrefix($0) } }) else { return false }
        guard let word = words.first(where: { !openings.contains($0) }) else { return false }
        return refusals.contains { word.hasPrefix($0) }
    }
}
