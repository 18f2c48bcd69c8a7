/// Makes the calls in the outbox, which revoke tokens and log users out at providers.
///
/// Calls that failed are repeated even after a restart (SEC-63).
package struct Revocations: Sendable {
    private var context: BrokerContext
    let slots = RevocationSlots()
    private let finished = FinishedWork()
    private let taken = BelievedTime()

    /// The age of an outbox row at which it is dropped although its call has failed.
    ///
    /// After this time, the tokens have probably expired, or no retry can succeed.
    private static let patience = Duration.seconds(3 * 86_400)

    /// The time for which this process has claimed an outbox row that it took.
    ///
    /// All provider calls for the row have to end within this time.
    private static let claim = Duration.seconds(120)

    /// The largest number of outbox rows in a batch.
    package static let batch = RevocationSlots.total

    package init(_ context: BrokerContext) { self.context = context }

    /// Returns a copy with the configuration and providers of another context.
    ///
    /// The copy shares the numbers of calls in progress.
    package func with(_ context: BrokerContext) -> Revocations {
        var work = self
        work.context = context
        return work
    }

    /// Takes due outbox rows, and begins their provider calls in the background.
    ///
    /// If fewer calls are free than rows are taken, the other rows are postponed.
    ///
    /// Returns the number of rows taken.
    package func begin() async throws(StoreFailure) -> Int {
        let batch = try await take(Self.batch)
        let work = self
        for begun in batch.begun {
            context.spawner.spawn("revocation") {
                await work.perform(begun)
                work.slots.leave(1)
            }
        }
        return batch.count
    }

    /// Makes the provider calls of the outbox rows that are due now, and waits for the calls; returns the number of rows taken.
    package func work(limit: Int = Revocations.batch) async throws(StoreFailure) -> Int {
        let batch = try await take(limit)
        await withTaskGroup(of: Void.self) { group in
            for begun in batch.begun { group.addTask { await self.perform(begun) } }
        }
        slots.leave(batch.begun.count)
        return batch.count
    }

    /// An outbox row for which a call is reserved, both in the total and at the row's provider.
    private struct Begun: Sendable {
        let row: OutboxRow
        let stored: StoredTokens
        let provider: any ProviderClient
        /// The moment when this process's claim on the row ends.
        let deadline: Duration
    }

    /// Takes a batch of due outbox rows.
    ///
    /// Rows whose calls have to wait are postponed, and rows without a call to make are removed.
    ///
    /// Returns the rows whose calls can begin, each with its reserved call, and the number of all rows taken.
    private func take(_ limit: Int) async throws(StoreFailure) -> (begun: [Begun], count: Int) {
        // If the clock has jumped, two things could go wrong: living sessions may seem to have lapsed; and rows would be
        // postponed by the length of the jump. So revoke no tokens while the clock is in doubt.
        guard context.may(.revoke) else { return ([], 0) }
        let places = slots.enter(limit)
        guard places > 0 else { return ([], 0) }
        let (now, moment) = (context.clock.now(), context.clock.monotonic())
        taken.note(now, moment)
        let rows: [OutboxRow]
        do throws(StoreFailure) {
            rows = try await context.store.takeOutbox(now: now, until: now.advanced(by: Self.claim), limit: limit)
        } catch {
            slots.leave(places)
            throw error
        }
        var begun: [Begun] = []
        var (done, failed, later): ([Digest], [PostponedWork], [PostponedWork]) = ([], [], [])
        for row in rows {
            switch sort(row, hasPlace: begun.count < places, by: moment + Self.claim) {
            case .begun(let work): begun.append(work)
            case .over(let outcome):
                switch Self.rest(of: row, outcome, at: now) {
                case .removed: done.append(row.id)
                case .postponed(let work, let isCounted):
                    if isCounted { failed.append(work) } else { later.append(work) }
                }
            }
        }
        slots.leave(places - begun.count)
        do throws(StoreFailure) {
            try await context.store.postponeOutbox(later, counting: false)
            try await context.store.postponeOutbox(failed, counting: true)
            try await context.store.removeOutbox(done)
        } catch { notWritten(error) }
        return (begun, rows.count)
    }

    private enum Sorted {
        case begun(Begun)
        case over(Outcome)
    }

    /// Opens an outbox row and reserves a call at its provider.
    ///
    /// If the call has to wait or is unnecessary, returns what happens to the row instead.
    private func sort(_ row: OutboxRow, hasPlace: Bool, by deadline: Duration) -> Sorted {
        let stored: StoredTokens
        do {
            stored = try StoredTokens(record: context.vault.open(row.tokens, as: .tokens, row: row.boundTo))
        } catch {
            let isUnknownKey = BrokerProblem(opening: error) != nil
            context.events.emit(.rowDidNotOpen(kind: .outbox, unknownKey: isUnknownKey))
            return .over(isUnknownKey ? .again : .done)
        }
        // An operator who removed a provider from the configuration may add it again, so keep the provider's rows.
        guard context.providers.has(stored.provider, stored.client), let provider = context.providers[stored.provider]
        else { return .over(.again) }
        let moment = context.clock.monotonic()
        if let pause = provider.refusesCallsFor {
            return .over(.later(slots.putOff(stored.provider, for: pause, at: moment)))
        }
        guard hasPlace else { return .over(.later(slots.putOff(stored.provider, at: moment))) }
        if let wait = slots.begin(stored.provider, share: RevocationSlots.share(of: provider.places), at: moment) {
            return .over(.later(wait))
        }
        return .begun(Begun(row: row, stored: stored, provider: provider, deadline: deadline))
    }

    fileprivate enum Outcome {
        /// The row's work is finished.
        case done
        /// The call failed for a temporary reason, so it is repeated.
        case again
        /// The provider asked for a pause of this length.
        case refused(Duration)
        /// The row's call did not begin, because the provider is busy or known to be unavailable.
        ///
        /// The row waits this long.
        case later(Duration)
    }

    /// Makes the provider calls of an outbox row, and then removes or postpones the row.
    private func perform(_ work: Begun) async {
        do throws(StoreFailure) {
            let outcome = try await settle(work)
            // The wall clock may have jumped since the row was taken. So compute the time from the trusted reading at the last
            // take.
            let now = taken.now(context.clock.monotonic()) ?? context.clock.now()
            switch Self.rest(of: work.row, outcome, at: now) {
            case .removed: try await finished.remove(work.row.id, from: context.store)
            case .postponed(let work, let isCounted):
                try await context.store.postponeOutbox([work], counting: isCounted)
            }
        } catch { notWritten(error) }
    }

    /// The decision to remove or to postpone an outbox row.
    private enum Rest {
        case removed
        case postponed(PostponedWork, isCounted: Bool)
    }

    /// Returns whether an outbox row is removed or postponed.
    ///
    /// A row whose call has failed waits for a minute. After each further failure, the row waits twice as long, up to an hour.
    private static func rest(of row: OutboxRow, _ outcome: Outcome, at now: WallTime) -> Rest {
        func postponed(_ pause: Duration, isCounted: Bool) -> Rest {
            .postponed(PostponedWork(id: row.id, until: now.advanced(by: pause)), isCounted: isCounted)
        }
        let isTooOld = now.since(row.createdAt) > patience
        switch outcome {
        case .done: return .removed
        case .again where isTooOld, .refused where isTooOld: return .removed
        case .again: return postponed(.seconds(min(3600, 60 << min(max(row.attempts - 1, 0), 6))), isCounted: true)
        case .refused(let pause), .later(let pause): return postponed(pause, isCounted: false)
        }
    }

    /// Emits the event that the store failed while rows were postponed or removed.
    ///
    /// If the write for a row failed, the row is due again after its claim has lapsed.
    private func notWritten(_ failure: StoreFailure) {
        context.events.emit(.storeFailed(operation: "outbox", detail: "\(failure)"))
    }

    /// Revokes the tokens of an outbox row, and then ends the user's session at the provider if necessary.
    ///
    /// Returns the outcome, which decides whether the row is removed or postponed.
    private func settle(_ work: Begun) async throws(StoreFailure) -> Outcome {
        let (row, stored, provider) = (work.row, work.stored, work.provider)
        var answer = RevocationSlots.Answer.none
        // Measure only the last provider call, because a slow store would otherwise make the provider seem slow.
        var took = Duration.zero
        defer {
            let moment = context.clock.monotonic()
            slots.end(stored.provider, answer, begun: moment - took, at: moment)
        }
        let session = try await context.store.session(tokenDigest: row.boundTo)
        do throws(BrokerProblem) {
            guard try !isHeld(stored, by: session) else {
                context.events.emit(.revocation(provider: stored.provider, result: "shared"))
                return .done
            }
        } catch { return .again }
        // If `accessVersion` is set, the row has a session's own tokens. The sealed record names an origin only because the
        // previous release needs one. Ignore this origin, because the session's row is more reliable.
        let named = stored.accessVersion == nil ? stored.origin : nil
        let origin = named ?? session.map(SignInOrigin.init) ?? heldBy(stored, provider.profile, row)
        let reach = provider.profile.client(stored.client)?.revocationReach ?? .signIn
        guard try await mayCall(row.id, reach, origin, { $0.tokens != nil }) else {
            context.events.emit(.revocation(provider: stored.provider, result: "shared"))
            return .done
        }
        var begun = context.clock.monotonic()
        answer = await revoke(stored, by: work.deadline)
        took = context.clock.monotonic() - begun
        context.memory.signIns.end(row.id)
        if let failure = Outcome(answer) { return failure }
        guard let ending = provider as? any SessionEnding, let origin, Self.endsProvidersSession(session),
            try await mayCall(row.id, .signIn, origin, { _ in true })
        else { return .done }
        defer { context.memory.signIns.end(row.id) }
        begun = context.clock.monotonic()
        answer = await endProvidersSession(stored, at: ending, by: work.deadline)
        took = context.clock.monotonic() - begun
        return Outcome(answer) ?? .done
    }

    /// Returns whether a living session still uses the refresh token of an outbox row, or another system uses the grant of an
    /// exported session.
    private func isHeld(_ stored: StoredTokens, by session: SessionRow?) throws(BrokerProblem) -> Bool {
        if session?.endReason == .exported { return true }
        guard let session, session.endedAt == nil, let token = stored.tokens.refreshToken else { return false }
        return try context.openSealed(session)?.tokens.refreshToken?.isEqual(to: token) ?? false
    }

    /// Decides, immediately before a revocation call, whether the call is sent.
    ///
    /// The call is omitted if it would also end a session that is alive in the broker or is being made (decision 21). `isHit`
    /// selects the sessions that count. For example, a session from an id_token has no tokens to lose, but may depend on the
    /// provider's own session.
    ///
    /// If the user and sign-in of the tokens are unknown, a call that ends all of a user's grants is omitted. A call that is
    /// sent stays registered until `SignInsUnderWay.end`.
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

    /// Returns the user and sign-in of tokens whose outbox row does not name them; nil if they are unknown.
    ///
    /// They are known only for Zephr, where the Zephr session identifies the sign-in. Two sessions of the broker that use the
    /// same Zephr session therefore have the same sign-in.
    private func heldBy(_ stored: StoredTokens, _ profile: ProviderProfile, _ row: OutboxRow) -> SignInOrigin? {
        guard stored.tokens.credential == .zephrCookie else { return nil }
        let sid = context.vault.index(.sid, [profile.issuer, stored.tokens.accessToken.reveal()])
        return SignInOrigin(subject: row.boundTo, sid: sid)
    }

    private func endProvidersSession(
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

    /// Whether a user or operator logged the session out, so that the user's session at the provider has to end, too.
    ///
    /// The caller checks separately whether other sessions of the same sign-in are alive.
    private static func endsProvidersSession(_ session: SessionRow?) -> Bool {
        switch session?.endReason {
        case .loggedOut, .loggedOutElsewhere, .admin: true
        case .loggedOutInBrowser, .exported, .replaced, .idleExpired, .expired, .tokenExpired, .grantRevoked,
            .refreshLost, .subjectChanged, .providerLogout, .parentEnded, .sessionLimit, .integrity, nil:
            false
        }
    }
}

extension Revocations.Outcome {
    /// Creates the outcome for an outbox row whose call failed; nil if the call succeeded or was unnecessary.
    fileprivate init?(_ answer: RevocationSlots.Answer) {
        switch answer {
        case .none, .final: return nil
        case .failed: self = .again
        case .refused(let wait): self = .refused(wait)
        }
    }
}
