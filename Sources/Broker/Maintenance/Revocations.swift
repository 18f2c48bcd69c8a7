/// Works the revocation outbox: tells providers which tokens and sessions ended, with retries that outlive a restart
/// (SEC-63).
package struct Revocations: Sendable {
    private var context: BrokerContext
    let slots = RevocationSlots()
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

    fileprivate enum Outcome {
        /// There is nothing more to do.
        case done
        /// It failed in passing.
        case again
        /// The provider asked to be left alone for so long.
        case refused(Duration)
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
            case .again where now.since(row.createdAt) > Self.patience,
                .refused where now.since(row.createdAt) > Self.patience:
                try await context.store.removeOutbox(row.id)
            case .again:
                let pause = Duration.seconds(min(3600, 60 << min(max(row.attempts - 1, 0), 6)))
                try await context.store.postponeOutbox(row.id, until: now.advanced(by: pause), counting: true)
            case .refused(let pause), .later(let pause):
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
        let begun = context.clock.monotonic()
        if let wait = slots.begin(stored.provider, share: RevocationSlots.share(of: provider.places), at: begun) {
            return .later(wait)
        }
        var answer = RevocationSlots.Answer.none
        defer { slots.end(stored.provider, answer, begun: begun, at: context.clock.monotonic()) }
        let session = try await context.store.session(tokenDigest: row.boundTo)
        // A session's own tokens name their owner only for the release before; its row knows better.
        let named = stored.accessVersion == nil ? stored.origin : nil
        let origin = named ?? session.map(SignInOrigin.init) ?? heldBy(stored, provider.profile, row)
        let reach = provider.profile.client(stored.client)?.revocationReach ?? .signIn
        guard try await mayCall(row.id, reach, origin, { $0.tokens != nil }) else {
            context.events.emit(.revocation(provider: stored.provider, result: "shared"))
            return .done
        }
        answer = await revoke(stored, by: deadline)
        context.memory.signIns.end(row.id)
        if let failure = Outcome(answer) { return failure }
        guard let ending = provider as? any SessionEnding, let origin, Self.wasLoggedOut(session),
            try await mayCall(row.id, .signIn, origin, { _ in true })
        else { return .done }
        defer { context.memory.signIns.end(row.id) }
        answer = await endSession(stored, at: ending, by: deadline)
        return Outcome(answer) ?? .done
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

    private func revoke(_ stored: StoredTokens, by deadline: Duration) async -> RevocationSlots.Answer {
        do throws(ProviderFailure) {
            switch context.providers[stored.provider] {
            case let provider as any PartialRegistering:
                try await provider.logOut(stored.tokens.accessToken, by: deadline)
            case let provider as any TokenRevoking:
                try await provider.revoke(stored.tokens, client: stored.client, by: deadline)
            default:
                context.events.emit(.revocation(provider: stored.provider, result: "unsupported"))
                return .none
            }
            context.events.emit(.revocation(provider: stored.provider, result: "done"))
            return .final
        } catch {
            context.events.emit(.revocation(provider: stored.provider, result: error.shortDescription))
            return RevocationSlots.Answer(error)
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
    ) async -> RevocationSlots.Answer {
        do throws(ProviderFailure) {
            if try await provider.endSession(stored.tokens, client: stored.client, by: deadline) {
                context.events.emit(.providerSessionEnd(provider: stored.provider, result: "done"))
            }
            return .final
        } catch {
            context.events.emit(.providerSessionEnd(provider: stored.provider, result: error.shortDescription))
            return RevocationSlots.Answer(error)
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
}

extension Revocations.Outcome {
    /// The rest of a row's work after an answer; nil where its call is done.
    fileprivate init?(_ answer: RevocationSlots.Answer) {
        switch answer {
        case .none, .final: return nil
        case .failed: self = .again
        case .refused(let wait): self = .refused(wait)
        }
    }
}
