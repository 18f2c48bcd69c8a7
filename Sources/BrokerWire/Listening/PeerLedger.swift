import Synchronization

/// Counts what the connections of each address take, so that one address cannot take it all (SEC-105).
///
/// It knows the addresses that have connections open, and no others.
package final class PeerLedger: Sendable {
    private let policy: @Sendable (PeerAddress) -> PeerPolicy
    private let accounts = Mutex<[PeerAddress: PeerAccount]>([:])

    /// Creates a ledger with what each address may take.
    package init(policy: @escaping @Sendable (PeerAddress) -> PeerPolicy) { self.policy = policy }

    /// Opens a connection of an address; returns nil when it has enough.
    func open(_ address: PeerAddress) -> PeerAccount? {
        let policy = policy(address)
        return accounts.withLock { accounts in
            let account = accounts[policy.key] ?? PeerAccount(policy)
            guard account.open() else { return nil }
            accounts[policy.key] = account
            return account
        }
    }

    /// Closes a connection that `open` let in.
    func close(_ account: PeerAccount) {
        accounts.withLock { accounts in
            if account.close() { accounts[account.policy.key] = nil }
        }
    }

    /// How many addresses have connections open.
    package var count: Int { accounts.withLock { $0.count } }
}
