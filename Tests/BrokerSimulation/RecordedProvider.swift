import Broker

/// A process's provider that records each call in the `PortTrace`.
struct RecordedProvider: CodeExchanging, TokenExchanging, TokenImporting, LegacyClaiming, TokenRevoking,
    LogoutTokenVerifying, CertificateShowing
{
    let base: SimulatedProvider
    let process: SimulatedProcess
    var profile: ProviderProfile { base.profile }
    private var words: TraceWords { TraceWords(vault: process.world.vault) }

    init(_ base: SimulatedProvider, of process: SimulatedProcess) {
        self.base = base
        self.process = process
    }

    private func recording<Value>(
        _ call: @autoclosure () -> String, _ result: (Value) -> String,
        _ work: () async throws(ProviderFailure) -> Value
    ) async throws(ProviderFailure) -> Value {
        try await process.recording(call(), result, failure: { words.of($0) }, work)
    }

    func certificate(of client: ClientName) -> String? { base.certificate(of: client) }

    // MARK: Signing in

    func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart {
        try await recording("authorize", { _ in "started" }) { () async throws(ProviderFailure) in
            try await base.startAuthorization(request, by: deadline)
        }
    }

    func issuerExpectation() async throws(ProviderFailure) -> IssuerExpectation {
        try await base.issuerExpectation()
    }

    func redeem(_ grant: CodeGrant, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await recording("redeem \(grant.code.reveal()) by \(words.of(deadline))", { words.of($0) }) {
            () async throws(ProviderFailure) in
            try await base.redeem(grant, by: deadline)
        }
    }

    func identify(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        try await recording("identify \(words.of(tokens))", { $0.subject }) { () async throws(ProviderFailure) in
            try await base.identify(tokens, context, by: deadline)
        }
    }

    // MARK: Importing

    var spendsImportedTokens: Bool { base.spendsImportedTokens }

    func importFault(_ tokens: ImportedTokens, client: ClientName) -> FieldFault? {
        base.importFault(tokens, client: client)
    }

    func clientID(of client: ClientName) -> String { base.clientID(of: client) }

    func takeOver(_ request: ImportRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await recording(
            "take over \(request.tokens.refreshToken?.reveal() ?? "") by \(words.of(deadline))", { words.of($0) }
        ) { () async throws(ProviderFailure) in try await base.takeOver(request, by: deadline) }
    }

    func identifyImported(
        _ tokens: TokenSet, of imported: ImportedTokens, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        try await recording("identify \(words.of(tokens))", { $0.subject }) { () async throws(ProviderFailure) in
            try await base.identifyImported(tokens, of: imported, context, by: deadline)
        }
    }

    func claim(_ claim: LegacyClaim, by deadline: Duration) async throws(ProviderFailure) -> LegacyAnswer {
        try await recording(
            "claim \(claim.token.reveal()) as \(claim.id) by \(words.of(deadline))", { words.of($0) }
        ) { () async throws(ProviderFailure) in try await base.claim(claim, by: deadline) }
    }

    // MARK: Refreshing and ending

    func refresh(_ request: RefreshRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await recording("refresh \(words.of(request)) by \(words.of(deadline))", { words.of($0) }) {
            () async throws(ProviderFailure) in
            try await base.refresh(request, by: deadline)
        }
    }

    func subjectOfRefreshed(
        _ tokens: TokenSet, before: TokenSet, client: ClientName
    ) async throws(ProviderFailure) -> RefreshedSubject {
        try await recording("subject \(words.of(tokens)) before \(words.of(before))", { words.of($0) }) {
            () async throws(ProviderFailure) in
            try await base.subjectOfRefreshed(tokens, before: before, client: client)
        }
    }

    func exchange(_ request: TargetExchange, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        try await recording(
            "exchange \(request.subjectToken.reveal()) \(words.of(request.target)) by \(words.of(deadline))",
            { words.of($0) }
        ) { () async throws(ProviderFailure) in try await base.exchange(request, by: deadline) }
    }

    func revoke(_ tokens: TokenSet, client: ClientName, by deadline: Duration) async throws(ProviderFailure) {
        try await recording("revoke \(words.of(tokens))", { "done" }) { () async throws(ProviderFailure) in
            try await base.revoke(tokens, client: client, by: deadline)
        }
    }

    func verifyLogoutToken(
        _ token: Secret, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> LogoutNotice {
        try await base.verifyLogoutToken(token, mayFetchKeys: mayFetchKeys)
    }
}
