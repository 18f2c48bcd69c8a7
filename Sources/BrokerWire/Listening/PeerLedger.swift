import Synchronization

/// Counts what the connections of each address take, and of each network, so that none can take it all (SEC-105).
///
/// It knows the addresses that have connections open, and no others.
package final class PeerLedger: Sendable {
    /// Hears of a connection that was turned away: whose it was, and what had enough.
    package typealias Observer = @Sendable (_ address: PeerAddress, _ limit: PeerPolicy.Key) -> Void

    private let policies: @Sendable (PeerAddress) -> [PeerPolicy]
    private let refused: Observer?
    /// Guards who has an account, and that a connection is counted everywhere or nowhere.
    private let accounts = Mutex<[PeerPolicy.Key: PeerAccount]>([:])

    /// Creates a ledger with what each address may take, then what its networks may, the narrowest first.
    package init(refused: Observer? = nil, policies: @escaping @Sendable (PeerAddress) -> [PeerPolicy]) {
        self.policies = policies
        self.refused = refused
    }

    /// Opens a connection of an address; returns nil when it, or a network that it is in, has enough.
    func open(_ address: PeerAddress) -> PeerAccount? {
        let policies = policies(address)
        let (account, full) = accounts.withLock { accounts -> (PeerAccount?, PeerPolicy.Key?) in
            var chain: [PeerAccount] = []
            // The widest first: a narrower account has it.
            for policy in policies.reversed() {
                let account = accounts[policy.key] ?? PeerAccount(policy, in: chain.last)
                account.adopt(policy)
                chain.append(account)
            }
            if let full = chain.last(where: { !$0.takesConnection }) { return (nil, full.key) }
            for account in chain {
                account.open()
                accounts[account.key] = account
            }
            return (chain.last, nil)
        }
        if let full { refused?(address, full) }
        return account
    }

    /// Closes a connection that `open` let in.
    func close(_ account: PeerAccount) {
        accounts.withLock { accounts in
            var next: PeerAccount? = account
            while let account = next {
                if account.close() { accounts[account.key] = nil }
                next = account.wider
            }
        }
    }

    /// How many addresses and networks have connections open.
    package var count: Int { accounts.withLock { $0.count } }
}
