/// The API that a flight's access token is for.
struct Audience: Sendable {
    let target: TokenTarget
    /// The key of the session's access token for that API.
    let key: Digest

    init(_ target: TokenTarget, of session: Digest, _ vault: any Vault) {
        self.target = target
        key = target.key(of: session, vault)
    }

    var purpose: RefreshStateMachine.Purpose { target.grant == .exchange ? .exchange : .audience }
}

/// The stored access token of a session for another API, opened.
struct KeptAudience: Sendable {
    let row: AudienceRow
    let access: AccessToken

    /// Opens a row; nil if it is damaged or its key is missing.
    init?(_ row: AudienceRow, _ context: BrokerContext) {
        guard let stored = StoredTokens.open(row, context) else { return nil }
        self.row = row
        access = stored.access(version: row.version)
    }
}

/// The steps of a refresh that concern only the access token for another API.
extension RefreshFlight {
    /// Reads the stored token for the other API, and decides whether the session's own tokens have to be refreshed first.
    func read(
        _ audience: Audience, _ row: SessionRow, _ stored: StoredTokens, _ work: inout Work
    ) async throws(BrokerProblem) -> RefreshStateMachine.Input {
        let found: AudienceRow?
        do throws(StoreFailure) { found = try await context.store.audience(audience.key, of: session) } catch {
            _ = failed("audience", error)
            throw BrokerProblem(error)
        }
        let kept = found.flatMap { KeptAudience($0, context) }
        work.kept = kept
        let now = context.clock.now()
        let margin = context.settings.refreshMargin
        let isOurs = kept != nil && kept?.row.version == work.grant?.fence
        let isShown = kept.map { context.shows($0.access.certificate, stored.provider, stored.client) } ?? false
        let isFresh = kept.map { RefreshTiming.isFresh($0.access, session, margin: margin, at: now) } ?? false
        let isUsable = kept.map { RefreshTiming.isUsable($0.access, at: now) } ?? false

        let own = stored.access(version: row.tokenVersion)
        let isOwnShown = context.shows(own.certificate, stored.provider, stored.client)
        let refreshable = work.provider != nil && stored.tokens.refreshToken != nil
        var needsOwn = !isOwnShown || isToBeBound(stored)
        var rest: Duration?
        if audience.purpose == .exchange {
            rest = stored.withheldFor(at: now)
            if !RefreshTiming.isFresh(own, session, margin: margin, at: now) { needsOwn = true }
            if !refreshable, isOwnShown, RefreshTiming.isUsable(own, at: now) { needsOwn = false }
        }
        if work.isTargetWithheld { rest = AudienceMemory.withheld }
        if let rest { work.heldBackFor = rest }
        return .read(
            version: row.tokenVersion, live: true, fresh: isShown && (isFresh || isOurs), usable: isShown && isUsable,
            refreshable: refreshable, unchecked: row.subjectUnchecked, withheld: rest == nil ? nil : .lately,
            standing: kept.map { .version($0.row.version) } ?? .missing, needsOwn: needsOwn)
    }

    /// Whether the client's tokens have to be bound to a key or a certificate, but these are not yet bound.
    private func isToBeBound(_ stored: StoredTokens) -> Bool {
        guard stored.tokens.key == nil, stored.tokens.certificate == nil else { return false }
        let client = context.providers[stored.provider]?.profile.client(stored.client)
        return client?.senderConstraint == .dpop || client?.senderConstraint == .mtls
    }

    /// Whether the answer has an access token that may be used, which is bound to a key if the session's tokens are.
    func isBound(_ fresh: TokenSet, asIn stored: StoredTokens) -> Bool {
        !fresh.accessToken.isEmpty && (stored.tokens.key == nil || fresh.key != nil)
    }

    /// Seals an access token for the row that keeps it.
    func sealed(
        _ fresh: TokenSet, for audience: Audience, _ stored: StoredTokens, fence: Int64, at now: WallTime
    ) throws(VaultFailure) -> AudienceRow {
        var tokens = fresh
        tokens.refreshToken = nil
        tokens.refreshExpiresAt = nil
        tokens.idToken = nil
        tokens.scope = fresh.scope ?? audience.target.scope
        let record = StoredTokens(provider: stored.provider, client: stored.client, tokens: tokens, issuedAt: now)
            .record
        return AudienceRow(
            key: audience.key, session: session, version: fence, storedAt: now, usedAt: now,
            tokens: try context.vault.seal(record, as: .audience, row: audience.key))
    }

    /// Emits the event for an answer whose access token for another API is not used because it is unbound.
    func tellOfWithheld(_ fresh: TokenSet, _ stored: StoredTokens, _ row: SessionRow) {
        guard let reason = fresh.refusal else {
            context.events.emit(
                .tokenNotBound(provider: stored.provider, client: stored.client, session: row.handle))
            return
        }
        context.events.emit(
            .tokenOfNoUse(provider: stored.provider, client: stored.client, session: row.handle, detail: reason))
    }

    /// Returns the stored token if it is still valid and its certificate is the present one.
    func living(_ work: Work) -> AccessToken? {
        guard let stored = work.stored, let access = work.kept?.access,
            context.shows(access.certificate, stored.provider, stored.client),
            RefreshTiming.isUsable(access, at: context.clock.now())
        else { return nil }
        return access
    }

    // MARK: Exchanging

    /// Exchanges the session's own access token for one of another API.
    ///
    /// An exchange spends no token, so a confirming call is refused.
    func exchange(confirming: Bool, _ work: inout Work) async -> RefreshStateMachine.Input {
        guard let audience, let stored = work.stored, let row = work.row, let grant = work.grant, !confirming,
            await mayCall(isFirst: work.call == nil, grant, work.deadline)
        else { return .notSent }
        work.call = .exchange
        work.isFailureOfTarget = true
        guard let provider = context.providers[stored.provider] as? any TokenExchanging else {
            work.targetFailure = .unusable(detail: "this kind of provider exchanges no tokens")
            work.failure = work.targetFailure
            return .rejected(.target)
        }
        var request = TargetExchange(
            client: stored.client, subjectToken: stored.tokens.accessToken, target: audience.target)
        request.proof = stored.tokens.key.map { ProofMaker($0.pair, context.vault, context.clock) }
        request.isCertified = stored.tokens.certificate != nil
        request.usesNonces = stored.tokens.key?.usesNonces ?? false
        do throws(ProviderFailure) {
            let fresh = try await context.memory.places.within(
                provider, row.subject, by: work.deadline, context.clock
            ) { () async throws(ProviderFailure) in try await provider.exchange(request, by: work.deadline) }
            guard isBound(fresh, asIn: stored) else {
                tellOfWithheld(fresh, stored, row)
                context.memory.audiences.rests(
                    audience.key, for: AudienceMemory.withheld, at: context.clock.monotonic())
                work.failure = .unusable(detail: "the exchanged token is not bound as the session's tokens are")
                return .unusable
            }
            work.exchanged = try sealed(fresh, for: audience, stored, grant.fence)
            return .exchanged
        } catch {
            work.failure = error
            work.targetFailure = error
            switch error {
            case .notSent: return .notSent
            case .retryable: return .retryable
            case .unusable, .identityRejected: return .unusable
            case .lost: return .lost
            case .rejected(let oauth) where oauth.isAboutProof:
                tellOfProof(stored, row, error.detail)
                return .unusable
            // A client that may refresh but not exchange is also refused with this code. Its refreshes are judged separately.
            case .rejected(let oauth) where oauth.isAboutTarget || oauth.code == "invalid_client":
                return .rejected(.target)
            case .rejected(let oauth) where oauth.isInvalidGrant || oauth.mayMeanDeadGrant:
                // Only a plain refresh would prove more, and it needs a refresh token.
                return .rejected(stored.tokens.refreshToken == nil ? .target : .invalidGrant)
            case .rejected: return .rejected(.unclear)
            }
        }
    }

    private func sealed(
        _ fresh: TokenSet, for audience: Audience, _ stored: StoredTokens, _ fence: Int64
    ) throws(ProviderFailure) -> AudienceRow {
        do throws(VaultFailure) {
            return try sealed(fresh, for: audience, stored, fence: fence, at: context.clock.now())
        } catch { throw .unusable(detail: "sealing: \(error)") }
    }

    /// Stores the exchanged token if the claim is still this flight's own, and releases the claim in the same transaction.
    func keep(_ work: inout Work) async -> RefreshStateMachine.Input {
        guard let row = work.row, let exchanged = work.exchanged else { return .storeFailed }
        do throws(StoreFailure) {
            if try await context.store.keepAudience(exchanged, tokenVersion: row.tokenVersion, of: row.tokens) {
                work.isWritten = true
                noteForced(work)
                claim.held.drop()
            } else {
                // After a step-up that kept the grant, the claim still exists.
                await release(&work, isOfTarget: true)
            }
            return .kept
        } catch {
            _ = failed("keepAudience", error)
            await release(&work, isOfTarget: true)
            return .storeFailed
        }
    }

    // MARK: Memory of the process

    /// Remembers that the provider granted the other API's token or left it unbound, and that the refresh was forced.
    func noteForced(_ work: Work) {
        let (memory, moment) = (context.memory.audiences, context.clock.monotonic())
        let isOfAudience = audience != nil && work.call != .plain
        if let audience, let stored = work.stored, isOfAudience {
            if work.isTargetWithheld {
                memory.rests(audience.key, for: AudienceMemory.withheld, at: moment)
            } else {
                memory.granted(audience.key, place(audience, stored))
            }
        }
        guard let asker, audience == nil || isOfAudience, let stored = work.stored, let row = work.row else { return }
        let version = isOfAudience ? work.grant?.fence ?? 0 : row.tokenVersion + 1
        let pause = context.memory.forced.forced(
            session, audience?.key, bringing: version, for: asker, at: moment,
            pause: context.settings.forcedRefreshPause)
        guard let pause, case .upstream(let upstream) = asker else { return }
        context.events.emit(
            .upstreamKeepsRefusing(
                provider: stored.provider, client: stored.client, session: row.handle, upstream: upstream,
                pause: pause))
    }

    /// Remembers that the provider refuses the other API's token, and returns the problem.
    func refuseTarget(_ work: Work) -> BrokerProblem {
        var word: String?
        if case .rejected(let refusal) = work.targetFailure { word = CallbackError.standardWord(refusal.code) }
        if let audience, let stored = work.stored, let row = work.row {
            context.memory.audiences.refused(
                audience.key, of: session, place(audience, stored), ofClient: isOfClient(work),
                at: context.clock.monotonic())
            context.events.emit(
                .targetRefused(
                    provider: stored.provider, client: stored.client, session: row.handle,
                    detail: work.targetFailure?.detail ?? ""))
        }
        return BrokerProblem(.providerError, privateDetail: work.targetFailure?.detail, providerError: word)
    }

    /// Whether a refusal concerns the configuration, and therefore every session of the client.
    private func isOfClient(_ work: Work) -> Bool {
        guard case .rejected(let refusal) = work.targetFailure else { return true }
        return refusal.isOfClient
    }

    private func place(_ audience: Audience, _ stored: StoredTokens) -> AudienceMemory.Place {
        AudienceMemory.Place(provider: stored.provider, client: stored.client, target: audience.target)
    }
}
