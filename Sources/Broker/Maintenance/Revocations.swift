import Synchronization

/// Works the revocation outbox: tells providers which tokens and sessions ended, with retries that outlive a restart
/// (SEC-63).
package struct Revocations: Sendable {
    private var context: BrokerContext
    private let slots = RevocationSlots()
    private let taken = BelievedTime()

    /// The time for which a piece of work is tried before it is given up; by then its tokens are dead or nobody can help.
    private static let patience = Duration.seconds(3 * 86_400)

    /// The time for which a taken row is this process's; all of its calls end within it.
    private static let claim = Duration.seconds(120)

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns the same work with another configuration's providers.
    package func with(_ context: BrokerContext) -> Revocations {
        var work = self
        work.context = context
        return work
    }

    /// Begins what is due and what there are places for, and does not wait for it; returns how many rows it took.
    package func begin() async throws(StoreFailure) -> Int {
        let (rows, places) = try await take(RevocationSlots.total)
        let work = self
        for row in rows {
            context.spawner.spawn("revocation") {
                await work.perform(row)
                work.slots.leave(1)
            }
        }
        slots.leave(places - rows.count)
        return rows.count
    }

    /// Works what is due now; returns how many rows it took.
    package func work(limit: Int = RevocationSlots.total) async throws(StoreFailure) -> Int {
        let (rows, places) = try await take(limit)
        await withTaskGroup(of: Void.self) { group in
            for row in rows { group.addTask { await self.perform(row) } }
        }
        slots.leave(places)
        return rows.count
    }

    private func take(_ limit: Int) async throws(StoreFailure) -> (rows: [OutboxRow], places: Int) {
        // By a clock that has jumped, no session would live, and what is put off would be put off for as long.
        guard context.may(.revoke) else { return ([], 0) }
        let places = slots.enter(limit)
        guard places > 0 else { return ([], 0) }
        let now = context.clock.now()
        taken.note(now, context.clock.monotonic())
        do throws(StoreFailure) {
            return (
                try await context.store.takeOutbox(now: now, until: now.advanced(by: Self.claim), limit: places), places
            )
        } catch {
            slots.leave(places)
            throw error
        }
    }

    private enum Outcome {
        /// There is nothing more to do.
        case done
        /// It failed in passing.
        case again
        /// It was not begun, and waits for so long: the provider has enough to do, or does not answer.
        case later(Duration)
    }

    /// Works one row.
    ///
    /// One that comes to nothing waits for a minute, and twice as long after each further time, up to an
    /// hour.
    private func perform(_ row: OutboxRow) async {
        do throws(StoreFailure) {
            let outcome = try await settle(row)
            // By the clock as it was believed when the row was taken: it may have jumped meanwhile.
            let now = taken.now(context.clock.monotonic()) ?? context.clock.now()
            switch outcome {
            case .done: try await context.store.removeOutbox(row.id)
            case .again where now.since(row.createdAt) > Self.patience: try await context.store.removeOutbox(row.id)
            case .again:
                let pause = Duration.seconds(min(3600, 60 << min(max(row.attempts - 1, 0), 6)))
                try await context.store.postponeOutbox(row.id, until: now.advanced(by: pause), counting: true)
            case .later(let pause):
                try await context.store.postponeOutbox(row.id, until: now.advanced(by: pause), counting: false)
            }
        } catch {
            // The row comes again when its claim has lapsed.
            context.events.emit(.storeFailed(operation: "outbox", detail: "\(error)"))
        }
    }

    /// Revokes, and when the provider has spoken on that, ends its session; says what is left of it.
    private func settle(_ row: OutboxRow) async throws(StoreFailure) -> Outcome {
        let deadline = context.clock.monotonic() + Self.claim
        let stored: StoredTokens
        do {
            stored = try StoredTokens(record: context.vault.open(row.tokens, as: .tokens, row: row.boundTo))
        } catch {
            if BrokerProblem(opening: error) != nil {
                context.events.emit(.rowDidNotOpen(kind: .outbox, unknownKey: true))
                return .again
            }
            context.events.emit(.rowDidNotOpen(kind: .outbox, unknownKey: false))
            return .done
        }
        // One that left the configuration may come back into it.
        guard context.providers.has(stored.provider, stored.client), let provider = context.providers[stored.provider]
        else { return .again }
        if let pause = provider.refusesCallsFor { return .later(max(pause, .seconds(2))) }
        guard slots.begin(stored.provider) else { return .later(.seconds(2)) }
        defer { slots.end(stored.provider) }
        let session = try await context.store.session(tokenDigest: row.boundTo)
        // A session's own tokens name their owner only for the release before; its row knows better.
        let named = stored.accessVersion == nil ? stored.origin : nil
        let origin = named ?? session.map(SignInOrigin.init) ?? heldBy(stored, provider.profile, row)
        let reach = provider.profile.client(stored.client)?.revocationReach ?? .signIn
        guard try await mayCall(row.id, reach, origin, { $0.tokens != nil }) else {
            context.events.emit(.revocation(provider: stored.provider, result: "shared"))
            return .done
        }
        let isRevoked = await revoke(stored, by: deadline)
        context.memory.signIns.end(row.id)
        guard isRevoked else { return .again }
        guard let ending = provider as? any SessionEnding, let origin, Self.wasLoggedOut(session),
            try await mayCall(row.id, .signIn, origin, { _ in true })
        else { return .done }
        defer { context.memory.signIns.end(row.id) }
        return await endSession(stored, at: ending, by: deadline) ? .done : .again
    }

    /// Decides immediately before a call whether it is made: not while a session lives here, or is being made, that it
    /// would take along (decision 21).
    ///
    /// `isHit` says which of them: a session of an id_token has no tokens to lose, and may live by the provider's own
    /// session. Where nobody knows whose the tokens are, a call that ends all of a user's grants is left out. A call that
    /// may be made is noted until `end`.
    private func mayCall(
        _ row: Digest, _ reach: RevocationReach, _ origin: SignInOrigin?, _ isHit: (SessionRow) -> Bool
    ) async throws(StoreFailure) -> Bool {
        guard let origin else { return reach != .user }
        guard context.memory.signIns.begin(row, reach, from: origin) else { return false }
        guard let taken = reach.taken(from: origin) else { return true }
        do throws(StoreFailure) {
            if try await !contains(taken, isHit) { return true }
        } catch {
            context.memory.signIns.end(row)
            throw error
        }
        context.memory.signIns.end(row)
        return false
    }

    private func contains(
        _ sessions: SessionSelector, _ isHit: (SessionRow) -> Bool
    ) async throws(StoreFailure) -> Bool {
        var after: SessionCursor?
        while true {
            let page = try await context.store.sessions(
                sessions, .live, after: after, limit: 100, now: context.lapseTime)
            if page.contains(where: isHit) { return true }
            guard page.count == 100, let last = page.last else { return false }
            after = SessionCursor(after: last)
        }
    }

    private func revoke(_ stored: StoredTokens, by deadline: Duration) async -> Bool {
        do throws(ProviderFailure) {
            switch context.providers[stored.provider] {
            case let provider as any PartialRegistering:
                try await provider.logOut(stored.tokens.accessToken, by: deadline)
            case let provider as any TokenRevoking:
                try await provider.revoke(stored.tokens, client: stored.client, by: deadline)
            default:
                context.events.emit(.revocation(provider: stored.provider, result: "unsupported"))
                return true
            }
            context.events.emit(.revocation(provider: stored.provider, result: "done"))
            return true
        } catch {
            context.events.emit(.revocation(provider: stored.provider, result: error.shortDescription))
            return Self.isFinal(error)
        }
    }

    /// Returns the owner of tokens for which no row names one: a Zephr session is its own sign-in, and two sessions
    /// here may hold the same one.
    private func heldBy(_ stored: StoredTokens, _ profile: ProviderProfile, _ row: OutboxRow) -> SignInOrigin? {
        guard stored.tokens.credential == .zephrCookie else { return nil }
        let sid = context.vault.index(.sid, [profile.issuer, stored.tokens.accessToken.reveal()])
        return SignInOrigin(subject: row.boundTo, sid: sid)
    }

    private func endSession(
        _ stored: StoredTokens, at provider: any SessionEnding, by deadline: Duration
    ) async -> Bool {
        do throws(ProviderFailure) {
            if try await provider.endSession(stored.tokens, client: stored.client, by: deadline) {
                context.events.emit(.providerSessionEnd(provider: stored.provider, result: "done"))
            }
            return true
        } catch {
            context.events.emit(.providerSessionEnd(provider: stored.provider, result: error.shortDescription))
            return Self.isFinal(error)
        }
    }

    /// Whether somebody logged the session out, so that the provider's own session is to end too; that no other one here
    /// lives by the same sign-in is asked before the call.
    private static func wasLoggedOut(_ session: SessionRow?) -> Bool {
        switch session?.endReason {
        case .loggedOut, .loggedOutElsewhere, .admin: true
        case .loggedOutInBrowser, .replaced, .idleExpired, .expired, .tokenExpired, .grantRevoked, .refreshLost,
            .subjectChanged, .providerLogout, .parentEnded, .sessionLimit, .integrity, nil:
            false
        }
    }

    /// Whether the provider has spoken: trying again would only hear it again.
    private static func isFinal(_ failure: ProviderFailure) -> Bool {
        switch failure {
        case .rejected, .unusable, .identityRejected: true
        case .notSent, .retryable, .lost: false
        }
    }
}

/// Counts of the revocations under way, in all and at each provider, so that one that hangs holds up no other's.
final class RevocationSlots: Sendable {
    private struct State {
        var running = 0
        var byProvider: [ProviderName: Int] = [:]
    }

    static let total = 16
    static let perProvider = 2

    /// Guards the counts.
    private let state = Mutex(State())

    /// Takes as many places as are free, at most `limit`; each is given back with `leave`.
    func enter(_ limit: Int) -> Int {
        state.withLock { state in
            let places = max(0, min(limit, Self.total - state.running))
            state.running += places
            return places
        }
    }

    /// Gives places back.
    func leave(_ places: Int) { state.withLock { $0.running -= places } }

    /// Takes a place at a provider; false when it has enough to do.
    func begin(_ provider: ProviderName) -> Bool {
        state.withLock { state in
            guard state.byProvider[provider, default: 0] < Self.perProvider else { return false }
            state.byProvider[provider, default: 0] += 1
            return true
        }
    }

    /// Gives a provider's place back.
    func end(_ provider: ProviderName) {
        state.withLock { state in
            let left = state.byProvider[provider, default: 1] - 1
            state.byProvider[provider] = left > 0 ? left : nil
        }
    }
}

/// The sign-ins whose session is about to be stored, and the revocations that are being sent, so that none of the latter
/// meets a token that has just been made.
final class SignInsUnderWay: Sendable {
    private struct Call {
        let origin: SignInOrigin
        let reach: RevocationReach
    }

    private struct State {
        var exchanges: [Digest: SignInOrigin] = [:]
        var calls: [Digest: Call] = [:]
    }

    /// Guards both tables; they hold what this process does right now.
    private let state = Mutex(State())

    /// Notes whose session an exchange is about to make.
    func enter(_ exchange: Digest, _ origin: SignInOrigin) { state.withLock { $0.exchanges[exchange] = origin } }

    /// Forgets an exchange that is over.
    func leave(_ exchange: Digest) { state.withLock { $0.exchanges[exchange] = nil } }

    /// Returns whether a revocation is being sent that takes tokens of this origin along.
    func isRevoking(_ origin: SignInOrigin) -> Bool {
        state.withLock { state in state.calls.values.contains { $0.reach.takes(origin, from: $0.origin) } }
    }

    /// Notes a revocation that is about to be sent; false where an exchange is under way that it would take along.
    func begin(_ row: Digest, _ reach: RevocationReach, from origin: SignInOrigin) -> Bool {
        state.withLock { state in
            if state.exchanges.values.contains(where: { reach.takes($0, from: origin) }) { return false }
            state.calls[row] = Call(origin: origin, reach: reach)
            return true
        }
    }

    /// Forgets a revocation that was answered, or was not sent.
    func end(_ row: Digest) { state.withLock { $0.calls[row] = nil } }
}
