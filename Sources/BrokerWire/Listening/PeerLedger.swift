import NIOCore
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

/// The connections and unanswered bytes of one address or one network.
///
/// The use of an address is also charged to its networks.
final class PeerAccount: Sendable {
    private struct State {
        var policy: PeerPolicy
        var connections = 0
        var heldBytes = 0
        var hasSession = false
    }

    let key: PeerPolicy.Key
    /// The account of the enclosing network; nil for the largest network.
    let wider: PeerAccount?
    private let state: Mutex<State>

    init(_ policy: PeerPolicy, in wider: PeerAccount?) {
        key = policy.key
        self.wider = wider
        state = Mutex(State(policy: policy))
    }

    /// Applies a new policy, and keeps the counts.
    ///
    /// A new policy can come with a connection, because the account lives on while any of its addresses is connected, and the
    /// configuration may change.
    func adopt(_ policy: PeerPolicy) { state.withLock { $0.policy = policy } }

    /// Whether this account's limit allows another connection.
    var takesConnection: Bool {
        state.withLock { state in
            let policy = state.policy
            let limit = state.hasSession ? policy.connections : policy.anonymousConnections ?? policy.connections
            return limit.map { state.connections < $0 } ?? true
        }
    }

    /// Counts a connection in this account only.
    func open() { state.withLock { $0.connections += 1 } }

    /// Removes a connection from this account only; returns true if it was the account's last.
    func close() -> Bool {
        state.withLock { state in
            state.connections -= 1
            return state.connections <= 0
        }
    }

    /// Notes that one of the account's connections carried a live session.
    func hasSession() {
        state.withLock { $0.hasSession = true }
        wider?.hasSession()
    }

    /// Charges bytes to the address and its networks; returns false, without a charge, if one of them is at its limit.
    func take(_ bytes: Int) -> Bool {
        let isTaken = state.withLock { state in
            if let limit = state.policy.heldBytes, state.heldBytes + bytes > limit { return false }
            state.heldBytes += bytes
            return true
        }
        guard isTaken else { return false }
        guard let wider, !wider.take(bytes) else { return true }
        state.withLock { $0.heldBytes -= bytes }
        return false
    }

    /// Removes bytes from the charge of the address and its networks.
    func give(_ bytes: Int) {
        state.withLock { $0.heldBytes -= bytes }
        wider?.give(bytes)
    }
}

/// A TCP peer's address as 128 bits.
///
/// IPv4 addresses are mapped into IPv6 (RFC 4291 section 2.5.5.2).
package struct PeerAddress: Sendable, Hashable {
    package let high: UInt64
    package let low: UInt64

    /// Creates an address from its halves.
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Creates the address of a socket; nil for a Unix socket.
    init?(_ address: SocketAddress) {
        // The offset and length of the address in `sockaddr_in` and `sockaddr_in6`; the bytes are in network order.
        let (offset, count) =
            switch address.protocol {
            case .inet: (4, 4)
            case .inet6: (8, 16)
            default: (0, 0)
            }
        let bytes: [UInt8] = address.withSockAddr { pointer, size in
            guard size >= offset + count else { return [] }
            return Array(UnsafeRawBufferPointer(start: pointer, count: size)[offset..<(offset + count)])
        }
        switch bytes.count {
        case 4: self.init(high: 0, low: bytes.reduce(0xFFFF) { $0 << 8 | UInt64($1) })
        case 16:
            self.init(
                high: bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) },
                low: bytes.suffix(8).reduce(0) { $0 << 8 | UInt64($1) })
        default: return nil
        }
    }
}

/// The limits on the connections of one address or one network together.
package struct PeerPolicy: Sendable, Equatable {
    /// The address, or the network, whose connections are counted together.
    package struct Key: Sendable, Hashable {
        /// The address, or the network's first address.
        package let address: PeerAddress
        /// The prefix length: the number of leading bits that all addresses of the network share.
        package let prefix: Int

        package init(_ address: PeerAddress, prefix: Int = 128) {
            self.address = address
            self.prefix = prefix
        }
    }

    package let key: Key
    /// The highest number of open connections; nil for no limit.
    package var connections: Int?
    /// The highest number of open connections until one of them has carried a live session; nil if `connections` applies.
    package var anonymousConnections: Int?
    /// The largest number of bytes that are received and not yet answered; nil for no limit.
    ///
    /// Undecoded bytes, heads, and the bodies of requests without a live session count towards this limit.
    package var heldBytes: Int?

    /// Creates a policy without limits.
    package init(key: Key) { self.key = key }
}
