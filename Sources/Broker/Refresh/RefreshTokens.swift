/// Keeps a session's tokens fresh: one refresh serves everyone, over any number of replicas (guarantee 2), and nobody is
/// logged out by a passing fault (guarantee 3).
package struct RefreshTokens: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns an access token that still has time, refreshing it first when it does not.
    ///
    /// A child's is its parent's, and so is the refresh.
    package func accessToken(for given: LiveSession) async throws(BrokerProblem) -> AccessToken {
        let session = given.tokenHolder
        guard session.hasTokens else { throw .withoutTokens }
        do throws(BrokerProblem) {
            // Tokens whose subject nobody has looked at are nobody's yet (SEC-59).
            if session.row.subjectUnchecked { return try await refresh(session, .expiring) }
            let context = context
            let access = try session.accessToken { row throws(BrokerProblem) in try StoredTokens.open(row, context) }
            let now = context.clock.now()
            if access.token.isEmpty { return try await refresh(session, .expiring) }
            // One of a certificate that is not shown any more is of no use, whatever time it has.
            if session.row.refreshable, !context.shows(access.certificate, session.facts.provider, session.facts.client)
            {
                return try await refresh(session, .expiring)
            }
            // Where nothing can be done about it, one whose end is unknown or not reached is as good as any.
            if !session.row.refreshable || RefreshTiming.isFresh(access, session.tokenDigest, margin: margin, at: now) {
                return access
            }
            if RefreshTiming.isUsable(access, at: now) {
                // It still lives: refresh beside, and let nobody wait for a slow provider.
                refreshBeside(session)
                return access
            }
            return try await refresh(session, .expiring)
        } catch { throw given.hears(error) }
    }

    private var margin: Duration { context.settings.refreshMargin }

    /// Returns a newer access token than one that an upstream has refused.
    ///
    /// Throws `not_refreshable` where the upstream refuses whatever it is given (`ForcedRefreshes`), unless a newer one is there
    /// already. A child's of this minute is never forced: a web page's script would rotate the grant.
    package func accessToken(
        for session: LiveSession, insteadOf refused: AccessToken, at upstream: String = ""
    ) async throws(BrokerProblem) -> AccessToken {
        do throws(BrokerProblem) { return try await newer(than: refused, for: session, at: upstream) } catch {
            throw session.hears(error)
        }
    }

    private func newer(
        than refused: AccessToken, for session: LiveSession, at upstream: String
    ) async throws(BrokerProblem) -> AccessToken {
        let holder = session.tokenHolder
        guard session.facts.child != nil, RefreshTiming.isYoung(refused, at: context.clock.now()) else {
            let asker = ForcedRefreshes.Asker.upstream(upstream)
            guard mayForce(holder, insteadOf: refused.version, for: asker) else {
                // A newer one that is there is given, whoever fetched it.
                guard let newer = try await stored(holder), newer.version > refused.version else {
                    throw BrokerProblem(.notRefreshable, privateDetail: "the upstream refuses each newer token")
                }
                return newer
            }
            return try await refresh(holder, .forced(fromVersion: refused.version), for: asker)
        }
        let standing = try await refresh(holder, .expiring)
        guard standing.version != refused.version else {
            throw BrokerProblem(.notRefreshable, privateDetail: "a child's upstream refuses a token of this minute")
        }
        return standing
    }

    private func mayForce(
        _ session: LiveSession, insteadOf refused: Int64, for asker: ForcedRefreshes.Asker
    ) -> Bool {
        context.memory.forced.mayForce(
            session.tokenDigest, nil, insteadOf: refused, for: asker, at: context.clock.monotonic(),
            pause: context.settings.forcedRefreshPause)
    }

    /// Returns the access token that is stored now, where it can be used.
    private func stored(_ session: LiveSession) async throws(BrokerProblem) -> AccessToken? {
        let row: SessionRow?
        do throws(StoreFailure) { row = try await context.store.session(tokenDigest: session.tokenDigest) } catch {
            throw BrokerProblem(error)
        }
        guard let row, !row.subjectUnchecked else { return nil }
        context.cache.remove(olderThan: row)
        let access = try StoredTokens.open(row, context).access(version: row.tokenVersion)
        let isShown = context.shows(access.certificate, session.facts.provider, session.facts.client)
        return isShown && RefreshTiming.isUsable(access, at: context.clock.now()) ? access : nil
    }

    /// Refreshes now because the app asks (`POST /v1/session/refresh`), and returns the session as it is stored then.
    ///
    /// The provider is not called for one whose token came from a forced refresh of this minute, nor for one that another replica
    /// has refreshed or stepped up since this one read it.
    package func refreshNow(_ given: LiveSession) async throws(BrokerProblem) -> SessionView {
        let session = given.tokenHolder
        guard session.hasTokens else { throw .withoutTokens }
        let context = context
        let resume = ResumeSession(context)
        let standing = try session.accessToken { row throws(BrokerProblem) in try StoredTokens.open(row, context) }
        if mayForce(session, insteadOf: standing.version, for: .app) {
            _ = try await refresh(session, .forced(fromVersion: standing.version), for: .app)
        } else {
            _ = try await resume.reread(session)
        }
        return try resume.view(of: try await resume.resume(given.tokenDigest))
    }

    private func refreshBeside(_ session: LiveSession) {
        let flights = context.memory.flights
        guard flights.backOff(session.tokenDigest, at: context.clock.monotonic()) == nil else { return }
        let (flight, isNew) = flights.join(session.tokenDigest)
        if isNew { begin(flight, session, .expiring) }
    }

    private func begin(
        _ flight: SharedFlight, _ session: LiveSession, _ need: RefreshStateMachine.Need,
        for asker: ForcedRefreshes.Asker? = nil
    ) {
        let work = RefreshFlight(
            context: context, flight: flight, session: session.tokenDigest, need: need, asker: asker)
        let flights = context.memory.flights
        context.spawner.spawn("refresh") {
            let outcome = await work.run()
            flights.finish(session.tokenDigest)
            flight.answer(outcome)
        }
    }

    /// Joins the session's flight, or begins it; the flight goes on when nobody waits any more.
    private func refresh(
        _ session: LiveSession, _ need: RefreshStateMachine.Need, for asker: ForcedRefreshes.Asker? = nil
    ) async throws(BrokerProblem) -> AccessToken {
        let flights = context.memory.flights
        let begun = context.clock.monotonic()
        while true {
            if let wait = flights.backOff(session.tokenDigest, at: context.clock.monotonic()) {
                throw BrokerProblem(.providerUnavailable, privateDetail: "backing off", retryAfter: wait)
            }
            let (flight, isNew) = flights.join(session.tokenDigest)
            if isNew {
                begin(flight, session, need, for: asker)
            } else {
                context.events.emit(.refreshWaited(provider: session.facts.provider, client: session.facts.client))
            }
            // The caller who began it waits for its calls, the others for as long as waiters do.
            let patience = isNew ? RefreshFlight.callBudget + .seconds(5) : context.settings.waiterPatience
            guard let outcome = await flight.wait(until: begun + patience) else {
                throw BrokerProblem(
                    .providerUnavailable, privateDetail: "hung up, or waited in vain", retryAfter: .seconds(1))
            }
            // It was for another API: what became of that says nothing of the session's own token.
            if !isNew, flight.audience != nil {
                try outcome.throwIfFinal()
                continue
            }
            let row = try outcome.get().row
            // Another replica may have stored it, which this one's cache does not know yet.
            context.cache.remove(olderThan: row)
            let stored = try StoredTokens.open(row, context)
            let access = stored.access(version: row.tokenVersion)
            // A flight that began for another need may have found nothing to do.
            // One that a step-up overtook has an older version still.
            if !isNew, case .forced(let from) = need, access.version <= from { continue }
            if !isNew {
                context.events.emit(.refreshShared(provider: session.facts.provider, client: session.facts.client))
            }
            // Nobody gets an access token that is not there.
            guard !stored.tokens.isWithheld else {
                throw BrokerProblem(
                    .providerUnavailable, privateDetail: "the provider did not bind the access token",
                    retryAfter: .seconds(30))
            }
            return access
        }
    }
}

extension BrokerContext {
    /// Whether tokens that are bound to a certificate are good now: it is the one that their client shows; those that are
    /// bound to none always are.
    func shows(_ certificate: String?, _ provider: ProviderName, _ client: ClientName) -> Bool {
        guard let certificate else { return true }
        return (providers[provider] as? any CertificateShowing)?.certificate(of: client) == certificate
    }
}

extension BrokerProblem {
    /// The problem of a session that was made of an id_token: there is nothing to refresh.
    fileprivate static var withoutTokens: BrokerProblem {
        BrokerProblem(.notRefreshable, privateDetail: "the session has no tokens of the provider's")
    }
}

extension StoredTokens {
    /// Opens a session row's tokens; throws `session_ended` for a tombstone.
    static func open(_ row: SessionRow, _ context: BrokerContext) throws(BrokerProblem) -> StoredTokens {
        guard let sealed = row.tokens else { throw BrokerProblem(.sessionEnded, reason: row.endReason) }
        do {
            return try StoredTokens(record: try context.vault.open(sealed, as: .tokens, row: row.tokenDigest))
        } catch {
            if let passing = BrokerProblem(opening: error) { throw passing }
            context.events.emit(.rowDidNotOpen(kind: .tokens, unknownKey: false))
            let context = context
            context.spawner.spawn("integrity") {
                _ = try? await EndSession(context).end(.token(row.tokenDigest), reason: .integrity, handle: row.handle)
            }
            throw BrokerProblem(.sessionEnded, reason: .integrity)
        }
    }
}

/// An access token to use now, for the relay and for token exchange.
///
/// A class, because a cached session hands the same one to call after call.
package final class AccessToken: Sendable {
    package let token: Secret
    package let credential: TokenSet.Credential
    /// The key that it is bound to; nil for one of whoever has it.
    package let key: ProofKeyPair?
    /// The thumbprint of the certificate that it is bound to; nil for one that is bound to none.
    package let certificate: String?
    package let expiresAt: WallTime?
    package let scope: [String]
    /// The token set's version: an upstream that refuses this token asks for a newer one than this.
    package let version: Int64
    package let issuedAt: WallTime

    package init(
        token: Secret, credential: TokenSet.Credential, key: ProofKeyPair? = nil, certificate: String? = nil,
        expiresAt: WallTime?, scope: [String], version: Int64, issuedAt: WallTime
    ) {
        self.key = key
        self.certificate = certificate
        self.token = token
        self.credential = credential
        self.expiresAt = expiresAt
        self.scope = scope
        self.version = version
        self.issuedAt = issuedAt
    }
}

/// Says when an access token is due: a minute before its end with up to 5 % jitter by session, so that sessions of one
/// moment do not refresh in one moment; a token that lives less than ten minutes is due in the last tenth of its life.
///
/// A token that was stored in the future was stored by a replica whose clock was wrong, and so is its end: it is due.
enum RefreshTiming {
    /// The most that the clocks of replicas may part.
    private static let tolerance = Duration.seconds(60)

    static func isFresh(_ access: AccessToken, _ session: Digest, margin: Duration, at now: WallTime) -> Bool {
        guard !access.token.isEmpty else { return false }
        guard let end = access.expiresAt else { return true }
        guard access.issuedAt.since(now) <= tolerance else { return false }
        let jitter = Double(session.bytes.first ?? 0) / 255 * 0.05
        let due = min(margin * (1 + jitter), max(.zero, end.since(access.issuedAt)) / 10)
        return end.since(now) > due
    }

    /// Whether a token was stored less than a minute ago, or so little in the future as clocks of replicas part.
    static func isYoung(_ access: AccessToken, at now: WallTime) -> Bool {
        now.since(access.issuedAt) < .seconds(60) && access.issuedAt.since(now) <= tolerance
    }

    static func isUsable(_ access: AccessToken, at now: WallTime) -> Bool {
        !access.token.isEmpty && access.expiresAt.map { now.advanced(by: .seconds(1)) < $0 } ?? true
    }
}
