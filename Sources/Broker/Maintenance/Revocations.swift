/// Works the revocation outbox: tells providers which tokens and sessions ended, with retries that outlive a restart
/// (SEC-63).
package struct Revocations: Sendable {
    private let context: BrokerContext

    /// How long a piece of work is tried before it is given up; by then its tokens are dead or nobody can help.
    private static let patience = Duration.seconds(3 * 86_400)

    package init(_ context: BrokerContext) { self.context = context }

    /// Works what is due now; returns how many rows it took.
    package func work(limit: Int = 32) async throws(StoreFailure) -> Int {
        let now = context.clock.now()
        let rows = try await context.store.takeOutbox(now: now, until: now.advanced(by: .seconds(60)), limit: limit)
        // All at once: a provider that hangs must not hold up what others are to be told.
        let failure = await withTaskGroup(of: StoreFailure?.self) { group in
            for row in rows { group.addTask { await self.failure(of: row, at: now) } }
            return await group.reduce(nil) { first, next in first ?? next }
        }
        if let failure { throw failure }
        return rows.count
    }

    /// Works one row; returns what the store said if it failed.
    private func failure(of row: OutboxRow, at now: WallTime) async -> StoreFailure? {
        do throws(StoreFailure) {
            let done = try await settle(row)
            if done || now.since(row.createdAt) > Self.patience { try await context.store.removeOutbox(row.id) }
            return nil
        } catch { return error }
    }

    /// Revokes, and when the provider has spoken on that, ends its session; false when something is to be tried again.
    private func settle(_ row: OutboxRow) async throws(StoreFailure) -> Bool {
        let stored: StoredTokens
        do {
            stored = try StoredTokens(record: context.vault.open(row.tokens, as: .tokens, row: row.boundTo))
        } catch VaultFailure.unknownKey {
            context.events.emit(.rowDidNotOpen(kind: .outbox, unknownKey: true))
            return false
        } catch {
            context.events.emit(.rowDidNotOpen(kind: .outbox, unknownKey: false))
            return true
        }
        guard await revoke(stored) else { return false }
        guard let provider = context.providers[stored.provider] as? any SessionEnding,
            try await endsProviderSession(row)
        else { return true }
        return await endSession(stored, at: provider)
    }

    private func revoke(_ stored: StoredTokens) async -> Bool {
        do throws(ProviderFailure) {
            switch context.providers[stored.provider] {
            case let provider as any PartialRegistering: try await provider.logOut(stored.tokens.accessToken)
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
        case .replaced, .idleExpired, .expired, .tokenExpired, .grantRevoked, .refreshLost, .subjectChanged,
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
