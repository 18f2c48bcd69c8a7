/// Keeps a session's tokens fresh.
///
/// One refresh serves all callers on all replicas (guarantee 2), and users stay logged in during a temporary fault (guarantee
/// 3).
package struct RefreshTokens: Sendable {
    private let context: BrokerContext

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns an access token that is valid for long enough, after a refresh if necessary.
    ///
    /// A child uses its parent's token and its parent's refresh.
    package func accessToken(for given: LiveSession) async throws(BrokerProblem) -> AccessToken {
        let session = given.tokenHolder
        guard session.hasTokens else { throw .withoutTokens }
        do throws(BrokerProblem) {
            // Tokens are served only after their subject was checked (SEC-59).
            if session.row.subjectUnchecked { return try await caller(session, .expiring).token() }
            let context = context
            let access = try session.accessToken { row throws(BrokerProblem) in try StoredTokens.open(row, context) }
            let now = context.clock.now()
            if access.token.isEmpty { return try await caller(session, .expiring).token() }
            // If the client now shows another certificate, a token bound to the old one is useless, even with time left.
            if session.row.refreshable, !context.shows(access.certificate, session.facts.provider, session.facts.client)
            {
                return try await caller(session, .expiring).token()
            }
            // A session that cannot be refreshed keeps this token until the token expires.
            let margin = context.settings.refreshMargin
            if !session.row.refreshable || RefreshTiming.isFresh(access, session.tokenDigest, margin: margin, at: now) {
                return access
            }
            if RefreshTiming.isUsable(access, at: now) {
                // The stored token is still valid. Refresh it in the background, so that callers are served even if the provider
                // is slow.
                caller(session, .expiring).refreshBeside()
                return access
            }
            return try await caller(session, .expiring).token()
        } catch { throw given.hears(error) }
    }

    /// Returns a newer access token after an upstream has refused the present one.
    ///
    /// Throws `not_refreshable` if the upstream refuses every newer token (`ForcedRefreshes`), unless a newer one is already
    /// stored. A child's token that is less than a minute old is never replaced, because a web page's script could then rotate
    /// the grant.
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
            let caller = caller(holder, .forced(fromVersion: refused.version), for: .upstream(upstream))
            guard caller.mayForce else {
                // Another caller may already have stored a newer token.
                guard let newer = try await stored(holder), newer.version > refused.version else {
                    throw BrokerProblem(
                        .notRefreshable,
                        privateDetail:
                            "the upstream keeps refusing newer tokens, so no refresh is forced; check the upstream")
                }
                return newer
            }
            return try await caller.token()
        }
        let standing = try await caller(holder, .expiring).token()
        guard standing.version > refused.version else {
            throw BrokerProblem(
                .notRefreshable,
                privateDetail:
                    "an upstream refused a child's token that is less than a minute old, so no refresh is forced")
        }
        return standing
    }

    /// Returns the access token that is stored now, if it can be used.
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

    /// Refreshes now because the app asks (`POST /v1/session/refresh`), and returns the session as stored afterwards.
    ///
    /// The provider is not called in two cases: a forced refresh brought the present token in the last minute; or another replica
    /// has refreshed the session, or stepped it up, since this replica read it.
    package func refreshNow(_ given: LiveSession) async throws(BrokerProblem) -> SessionView {
        let session = given.tokenHolder
        guard session.hasTokens else { throw .withoutTokens }
        let context = context
        let resume = ResumeSession(context: context)
        let standing = try session.accessToken { row throws(BrokerProblem) in try StoredTokens.open(row, context) }
        let caller = caller(session, .forced(fromVersion: standing.version), for: .app)
        if caller.mayForce {
            _ = try await caller.token()
        } else {
            _ = try await resume.reread(session)
        }
        return try resume.view(of: try await resume.resume(given.tokenDigest))
    }

    private func caller(
        _ session: LiveSession, _ need: RefreshStateMachine.Need, for asker: ForcedRefreshes.Asker? = nil
    ) -> RefreshCaller {
        RefreshCaller(context: context, session: session, goal: OwnToken(), need: need, asker: asker)
    }
}

extension BrokerContext {
    /// Returns whether tokens can be used now, according to the certificate that they are bound to.
    ///
    /// Tokens that are bound to a certificate can be used only while their client shows this certificate. `certificate` is nil
    /// for other tokens, which can always be used.
    func shows(_ certificate: String?, _ provider: ProviderName, _ client: ClientName) -> Bool {
        guard let certificate else { return true }
        return (providers[provider] as? any CertificateShowing)?.certificate(of: client) == certificate
    }
}

extension BrokerProblem {
    /// The problem for a session that was made from an id_token, so it has no tokens to refresh.
    fileprivate static var withoutTokens: BrokerProblem {
        BrokerProblem(
            .notRefreshable, privateDetail: "the session was made from an id_token, so it has no tokens to refresh")
    }
}

extension StoredTokens {
    /// Opens the tokens in a session's row; throws `session_ended` for a tombstone.
    static func open(_ row: SessionRow, _ context: BrokerContext) throws(BrokerProblem) -> StoredTokens {
        guard let sealed = row.tokens else { throw BrokerProblem(.sessionEnded, with: .ended(row.endReason)) }
        do {
            return try StoredTokens(record: try context.vault.open(sealed, as: .tokens, row: row.tokenDigest))
        } catch {
            if let passing = BrokerProblem(opening: error) { throw passing }
            context.events.emit(.rowDidNotOpen(kind: .tokens, unknownKey: false))
            let context = context
            context.spawner.spawn("integrity") {
                _ = try? await EndSession(context).end(.token(row.tokenDigest), reason: .integrity, handle: row.handle)
            }
            throw BrokerProblem(.sessionEnded, with: .ended(.integrity))
        }
    }
}

/// Decides when an access token has to be refreshed.
///
/// A token is refreshed `margin` before its end, by default a minute. Each session adds up to 5 % to the margin, so that
/// sessions that began together are refreshed at different times. A token with a life of less than ten margins is refreshed
/// in the last tenth of its life.
///
/// If the issue time is more than `tolerance` in the future, a replica with a wrong clock stored the token. The token's end
/// is then wrong as well, so the token is refreshed.
enum RefreshTiming {
    /// The greatest expected difference between the clocks of replicas.
    private static let tolerance = Duration.seconds(60)

    static func isFresh(_ access: AccessToken, _ session: Digest, margin: Duration, at now: WallTime) -> Bool {
        guard !access.token.isEmpty else { return false }
        guard let end = access.expiresAt else { return true }
        guard access.issuedAt.since(now) <= tolerance else { return false }
        let jitter = Double(session.bytes.first ?? 0) / 255 * 0.05
        let due = min(margin * (1 + jitter), max(.zero, end.since(access.issuedAt)) / 10)
        return end.since(now) > due
    }

    /// Whether a token was issued less than a minute ago.
    ///
    /// An issue time up to `tolerance` in the future counts as well.
    static func isYoung(_ access: AccessToken, at now: WallTime) -> Bool {
        now.since(access.issuedAt) < .seconds(60) && access.issuedAt.since(now) <= tolerance
    }

    /// Whether a token has expired since it was issued.
    ///
    /// A token that had already expired when it was issued does not count, because the next token would have expired too.
    static func hasRunOut(_ access: AccessToken, at now: WallTime) -> Bool {
        access.expiresAt.map { access.issuedAt < $0 && $0 <= now } ?? false
    }

    static func isUsable(_ access: AccessToken, at now: WallTime) -> Bool {
        !access.token.isEmpty && access.expiresAt.map { now.advanced(by: .seconds(1)) < $0 } ?? true
    }
}
