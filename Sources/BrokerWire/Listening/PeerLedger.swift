import Synchronization

/// Counts the connections and unanswered bytes of each address and each network, and enforces a limit on each (SEC-105).
///
/// Only addresses with open connections, and their networks, have an account.
package final class PeerLedger: Sendable {
    /// Called when a connection is turned away, with its address and the limit that was reached.
    package typealias Observer = @Sendable (_ address: PeerAddress, _ limit: PeerPolicy.Key) -> Void

    private let policies: @Sendable (PeerAddress) -> [PeerPolicy]
    private let refused: Observer?
    /// The account of each address and network; the lock ensures that a connection is counted in all its accounts at once.
    private let accounts = Mutex<[PeerPolicy.Key: PeerAccount]>([:])

    /// Creates a ledger.
    ///
    /// `policies` returns the limits of an address, then those of its networks, the narrowest first.
    package init(refused: Observer? = nil, policies: @escaping @Sendable (PeerAddress) -> [PeerPolicy]) {
        self.policies = policies
        self.refused = refused
    }

    /// Opens a connection of an address; returns nil if the address or one of its networks has reached its limit.
    func open(_ address: PeerAddress) -> PeerAccount? {
        let policies = policies(address)
        let (account, full) = accounts.withLock { accounts -> (PeerAccount?, PeerPolicy.Key?) in
            var chain: [PeerAccount] = []
            // Begin with the widest network, because each account refers to the account of the next wider network.
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

    /// Closes a connection that `open` admitted.
    func close(_ account: PeerAccount) {
        accounts.withLock { accounts in
            var next: PeerAccount? = account
            while let account = next {
                if account.close() { accounts[account.key] = nil }
                next = account.wider
            }
        }
    }

    /// The number of addresses and networks with open connections.
    package var count: Int { accounts.withLock { $0.count } }
}
