package import Broker
import Crypto

/// A provider of kind `clover`.
///
/// The subject is the merchant, which a call with the token confirms. Clover has no revocation.
package struct CloverClient: EngineBacked, CodeExchanging, TokenRefreshing, TokenImporting {
    package let engine: OAuthEngine
    private let wired: ProviderSettings
    private let random: @Sendable (Int) throws -> [UInt8]
    package var probesKeys: Bool { false }

    init(_ settings: ProviderSettings, _ own: CloverSettings, environment: ProviderEnvironment) throws {
        wired = try CloverWire.settings(settings, own)
        random = environment.random
        var engine = try OAuthEngine(wired, environment: environment)
        engine.dialect = CloverWire.dialect
        self.engine = engine
    }

    package func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart {
        var request = request
        // Permissions are set on the app, so request no scope. It is unknown whether Clover accepts PKCE from a client with a
        // secret, so use PKCE only for a public client.
        request.scope = []
        if try engine.client(request.client).authenticator.isConfidential { request.codeChallenge = nil }
        return try await engine.start(request, openID: false, by: deadline)
    }

    package var callbackHints: [String] { ["client_id", "merchant_id"] }

    /// Returns the fault of a callback that names no merchant or another app; nil for other callbacks.
    ///
    /// Only the callback names the merchant. If the merchant is missing, redeeming the code would spend it in vain.
    package func callbackFault(_ parameters: [(name: String, value: String)], client: ClientName) -> String? {
        func value(_ name: String) -> String? { parameters.first { $0.name.hasBytes(of: name) }?.value }
        guard let merchant = value("merchant_id"), Self.isIdentifier(merchant) else {
            return "Clover: no usable merchant_id"
        }
        if let app = value("client_id"), let own = try? engine.client(client).settings.clientID, !app.hasBytes(of: own)
        {
            return "Clover: the callback is another app's"
        }
        return nil
    }

    package func redeem(_ grant: CodeGrant, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        var grant = grant
        if try engine.client(grant.client).authenticator.isConfidential { grant.verifier = nil }
        return try await engine.redeem(grant, verifiesIDToken: false, by: deadline)
    }

    package func identify(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let client = try engine.client(context.client)
        func hint(_ name: String) -> String? { context.callback.first { $0.name == name }?.value }
        if let app = hint("client_id"), app != client.settings.clientID {
            throw .identityRejected(detail: "Clover: the callback is another app's")
        }
        guard let merchant = hint("merchant_id"), Self.isIdentifier(merchant),
            let url = try wired.endpoints.api?.at("/v3/merchants/" + merchant)
        else { throw .identityRejected(detail: "Clover: no usable merchant_id") }
        // The callback's `merchant_id` is only a hint. It is accepted if the token can read this merchant (SEC-16).
        let object = try await engine.resource(
            url, token: tokens.accessToken, subject: "/id", again: context.secondRead, client: client, by: deadline)
        guard object["id"]?.string == merchant else { throw .identityRejected(detail: "Clover: another merchant") }
        return ProviderIdentity(
            subject: merchant, claims: IdentityMapper.claims(object, [("name", "/name")]),
            unverified: IdentityMapper.unverified(
                context, keeping: client.profile.callbackParameters.filter { $0 != "merchant_id" }))
    }

    /// Refreshes with only the client id and the refresh token.
    ///
    /// Clover may refuse the refresh token and offer recovery, because an earlier refresh had spent the token. If the client
    /// has a secret, a second call then exchanges the spent token for a new token pair.
    package func refresh(_ request: RefreshRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await refresh(request, isImport: false, by: deadline)
    }

    private func refresh(
        _ request: RefreshRequest, isImport: Bool, by deadline: Duration
    ) async throws(ProviderFailure) -> TokenSet {
        let client = try engine.client(request.client)
        guard request.target == nil else { throw .notSent(detail: "Clover's tokens are for its own API alone") }
        do throws(ProviderFailure) {
            return try await call(
                wired.endpoints.refresh, client,
                [("client_id", client.settings.clientID), ("refresh_token", request.refreshToken.reveal())],
                isImport: isImport, by: deadline)
        } catch {
            guard case .rejected(let refusal) = error, refusal.recoveryOffered,
                case .clientSecretPost(let secret) = client.settings.authentication
            else { throw error }
            return try await call(
                wired.endpoints.recovery, client,
                [
                    ("client_id", client.settings.clientID), ("client_secret", secret.reveal()),
                    ("recovery_token", request.refreshToken.reveal()),
                ], isImport: isImport, by: deadline)
        }
    }

    package func importFault(_ tokens: ImportedTokens, client: ClientName) -> FieldFault? {
        if tokens.idToken != nil { return FieldFault("/tokens/id_token", .notAllowed) }
        return tokens.accessToken == nil ? FieldFault("/tokens/access_token", .required) : nil
    }

    /// Refreshes an imported token pair with the client's id.
    ///
    /// The refresh succeeds only if the pair belongs to this client.
    ///
    /// An access token without a refresh token counts as one of Clover's legacy tokens, which never expire. Such a token is
    /// exchanged for a pair.
    package func takeOver(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        guard let refreshToken = request.tokens.refreshToken else { return try await migrate(request, by: deadline) }
        return try await refresh(
            RefreshRequest(
                client: request.client, refreshToken: refreshToken,
                accessToken: request.tokens.accessToken ?? Secret(""), idempotencyKey: request.idempotencyKey),
            isImport: true, by: deadline)
    }

    package func identifyImported(
        _ tokens: TokenSet, of imported: ImportedTokens, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        do throws(ProviderFailure) { return try await identify(tokens, context, by: deadline) } catch {
            // Clover answers 401 for another merchant than the token's.
            guard case .identityRejected(let detail, _) = error else { throw error }
            throw .identityRejected(detail: detail)
        }
    }

    /// Exchanges a legacy (v1) token for a code for the broker's app and the token's merchant, and redeems that code
    /// (docs.clover.com/docs/legacy-token-migration-flow).
    ///
    /// The code is redeemed with the client's secret, or with PKCE if the client is public.
    private func migrate(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        let client = try engine.client(request.client)
        guard let merchant = request.tokens.merchantID, Self.isIdentifier(merchant),
            let url = wired.endpoints.migration, let legacy = request.tokens.accessToken
        else { throw .notSent(detail: "Clover: no merchant, or no address for migrations") }
        let verifier = client.authenticator.isConfidential ? nil : try verifier()
        var members: [(name: String, value: String)] = [
            ("merchant_uuid", merchant), ("app_uuid", client.settings.clientID),
            ("auth_token", legacy.reveal()),
        ]
        if let verifier {
            let hash = SHA256.hash(data: verifier.bytes())
            members.append(("code_challenge", Base64URL.encode(Array(hash))))
        }
        let answer = try await send(url, client, members, by: deadline)
        let code: String
        do throws(ProviderFailure) { code = try migrationCode(answer) } catch {
            throw answer.importFailure(error, at: engine.clock.now())
        }
        let grant = CodeGrant(
            client: request.client, code: Secret(code), redirect: .omitted, verifier: verifier,
            idempotencyKey: request.idempotencyKey)
        do throws(ProviderFailure) {
            return try await engine.redeem(grant, verifiesIDToken: false, by: deadline)
        } catch {
            // The code is used up, and the legacy token may be good. So the migration has to be repeated.
            if case .unusable(let detail) = error { throw .lost(detail: detail) }
            throw error
        }
    }

    private func migrationCode(_ answer: ProviderAnswer) throws(ProviderFailure) -> String {
        try answer.requireUsable(at: engine.clock.now())
        guard answer.isSuccess, let code = answer.object?["authorization_code"]?.string, !code.isEmpty,
            code.utf8.count <= 4096
        else {
            if let refusal = CloverWire.dialect(answer) { throw .rejected(refusal) }
            throw .unusable(detail: "migration: \(answer.summary), no code")
        }
        return code
    }

    private func verifier() throws(ProviderFailure) -> Secret {
        guard let bytes = try? random(32) else { throw .notSent(detail: "no random bytes") }
        return Secret(Base64URL.encode(bytes))
    }

    package func subjectOfRefreshed(
        _ tokens: TokenSet, before: TokenSet, client: ClientName
    ) async throws(ProviderFailure) -> RefreshedSubject {
        .absent
    }

    private func call(
        _ url: EndpointURL?, _ client: EngineClient, _ members: [(name: String, value: String)], isImport: Bool,
        by deadline: Duration
    ) async throws(ProviderFailure) -> TokenSet {
        guard let url else { throw .notSent(detail: "Clover: no address") }
        let answer = try await send(url, client, members, by: deadline)
        do throws(ProviderFailure) {
            return try engine.answers(client).refreshed(answer, nil, now: engine.clock.now())
        } catch { throw isImport ? answer.importFailure(error, at: engine.clock.now()) : error }
    }

    private func send(
        _ url: EndpointURL, _ client: EngineClient, _ members: [(name: String, value: String)], by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderAnswer {
        let body = ParameterBody.make(members, TokenRequestSettings(encoding: .json))
        return try await engine.caller.send(
            ProviderRequest(
                method: "POST", url: url, connection: .single,
                headers: [("Content-Type", body.type), ("Accept", "application/json")]
                    + client.wire.tokenRequest.headers,
                body: body.bytes), by: deadline)
    }

    private static func isIdentifier(_ text: String) -> Bool {
        (1...32).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
            }
    }
}
