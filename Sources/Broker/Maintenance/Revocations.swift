/// Works the revocation outbox: tells providers which tokens and sessions ended, with retries that outlive a restart
/// (SEC-63).
package struct Revocations: Sendable {
    private let context: BrokerContext
    private let slots = RevocationSlots()

    /// How long a piece of work is tried before it is given up; by then its tokens are dead or nobody can help.
    private static let patience = Duration.seconds(3 * 86_400)

    /// How long a taken row is this process's: longer than all of its calls.
    private static let claim = Duration.seconds(120)

    package init(_ context: BrokerContext) { self.context = context }

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
        let places = slots.enter(limit)
        guard places > 0 else { return ([], 0) }
        let now = context.clock.now()
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
        /// The provider has enough to do: it was not begun.
        case later
    }

    /// Works one row.
    ///
    /// One that comes to nothing waits for a minute, and twice as long after each further time, up to an
    /// hour.
    private func perform(_ row: OutboxRow) async {
        do throws(StoreFailure) {
            let outcome = try await settle(row)
            let now = context.clock.now()
            switch outcome {
            case .done: try await context.store.removeOutbox(row.id)
            case .again where now.since(row.createdAt) > Self.patience: try await context.store.removeOutbox(row.id)
            case .again:
                let pause = Duration.seconds(min(3600, 60 << min(max(row.attempts - 1, 0), 6)))
                try await context.store.postponeOutbox(row.id, until: now.advanced(by: pause), counting: true)
            case .later:
                try await context.store.postponeOutbox(row.id, until: now.advanced(by: .seconds(2)), counting: false)
            }
        } catch {
            // The row comes again when its claim has lapsed.
            context.events.emit(.storeFailed(operation: "outbox", detail: "\(error)"))
        }
    }

    /// Revokes, and when the provider has spoken on that, ends its session; says what is left of it.
    private func settle(_ row: OutboxRow) async throws(StoreFailure) -> Outcome {
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
        guard slots.begin(stored.provider) else { return .later }
        defer { slots.end(stored.provider) }
        guard await revoke(stored, isShared: row.isShared) else { return .again }
        guard let provider = context.providers[stored.provider] as? any SessionEnding,
            try await endsProviderSession(row)
        else { return .done }
        return await endSession(stored, at: provider) ? .done : .again
    }

    private func revoke(_ stored: StoredTokens, isShared: Bool) async -> Bool {
        do throws(ProviderFailure) {
            switch context.providers[stored.provider] {
            case let provider as any PartialRegistering:
                guard try await !isHeldElsewhere(stored, provider.profile, isShared: isShared) else {
                    context.events.emit(.revocation(provider: stored.provider, result: "shared"))
                    return true
                }
                try await provider.logOut(stored.tokens.accessToken)
            case let provider as any TokenRevoking: try await provider.revoke(stored.tokens, client: stored.client)
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

    /// Whether a live session here holds the same Zephr session: telling Zephr of a log-out would end that one too.
    ///
    /// Decided when the work was taken, in that transaction, and looked at once more for who signed in since, and for
    /// work that belongs to no session.
    private func isHeldElsewhere(
        _ stored: StoredTokens, _ profile: ProviderProfile, isShared: Bool
    ) async throws(ProviderFailure) -> Bool {
        if isShared { return true }
        let sid = context.vault.index(.sid, [profile.issuer, stored.tokens.accessToken.reveal()])
        do throws(StoreFailure) {
            return try await !context.store.sessions(.sid(sid), .live, after: nil, limit: 1, now: context.clock.now())
                .isEmpty
        } catch { throw .notSent(detail: "the store is away") }
    }

    private func endSession(_ stored: StoredTokens, at provider: any SessionEnding) async -> Bool {
        do throws(ProviderFailure) {
            if try await provider.endSession(stored.tokens, client: stored.client) {
                context.events.emit(.providerSessionEnd(provider: stored.provider, result: "done"))
            }
            return true
        } catch {
            context.events.emit(.providerSessionEnd(provider: stored.provider, result: error.shortDescription))
            return Self.isFinal(error)
        }
    }

    /// Whether the provider's own session is to end too: where somebody logged the session out, and no other one here
    /// lives by the same sign-in at the provider (its `sid`; without one, by the same person).
    private func endsProviderSession(_ row: OutboxRow) async throws(StoreFailure) -> Bool {
        guard let session = try await context.store.session(token: row.boundTo) else { return false }
        switch session.endReason {
        case .loggedOut, .loggedOutElsewhere, .admin: break
        case .loggedOutInBrowser, .replaced, .idleExpired, .expired, .tokenExpired, .grantRevoked, .refreshLost, .subjectChanged,
            .providerLogout, .sessionLimit, .integrity, nil:
            return false
        }
        let shared = session.sid.map(SessionSelector.sid) ?? .subject(session.subject)
        return try await context.store.sessions(shared, .live, after: nil, limit: 1, now: context.clock.now()).isEmpty
    }

    /// Whether the provider has spoken: trying again would only hear it again.
    private static func isFinal(_ failure: ProviderFailure) -> Bool {
        switch failure {
        case .rejected, .unusable, .identityRejected: true
        case .notSent, .retryable, .lost: false
        }
    }
}
