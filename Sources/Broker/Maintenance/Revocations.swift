/// Works the revocation outbox: tells providers which tokens ended, with retries that outlive a restart (SEC-63).
package struct Revocations: Sendable {
    private let context: BrokerContext

    /// How long a piece of work is tried before it is given up; by then its tokens are dead or nobody can help.
    private static let patience = Duration.seconds(3 * 86_400)

    package init(_ context: BrokerContext) { self.context = context }

    /// Works what is due now; returns how many rows it took.
    package func work(limit: Int = 32) async throws(StoreFailure) -> Int {
        let now = context.clock.now()
        let rows = try await context.store.takeOutbox(now: now, until: now.advanced(by: .seconds(60)), limit: limit)
        for row in rows {
            let done = await revoke(row)
            if done || now.since(row.createdAt) > Self.patience { try await context.store.removeOutbox(row.id) }
        }
        return rows.count
    }

    private func revoke(_ row: OutboxRow) async -> Bool {
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
            switch error {
            // The provider has spoken: trying again would only hear it again.
            case .rejected, .unusable, .identityRejected: return true
            case .notSent, .retryable, .lost: return false
            }
        }
    }
}
