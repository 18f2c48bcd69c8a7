import NIOCore
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

    /// The number of addresses and networks that have connections open.
    package var count: Int { accounts.withLock { $0.count } }
}

/// The account of the connections of one address, or of one network; what an address takes, its networks take with it.
final class PeerAccount: Sendable {
    private struct State {
        var policy: PeerPolicy
        var connections = 0
        var heldBytes = 0
        var hasSession = false
    }

    let key: PeerPolicy.Key
    /// The account of the network that it is in; nil for the widest that is counted.
    let wider: PeerAccount?
    private let state: Mutex<State>

    init(_ policy: PeerPolicy, in wider: PeerAccount?) {
        key = policy.key
        self.wider = wider
        state = Mutex(State(policy: policy))
    }

    /// Goes on with what may be taken now: the account of a network lives for as long as anybody in it is connected.
    func adopt(_ policy: PeerPolicy) { state.withLock { $0.policy = policy } }

    /// Whether another connection may be opened, as far as this account goes.
    var takesConnection: Bool {
        state.withLock { state in
            let policy = state.policy
            let limit = state.hasSession ? policy.connections : policy.anonymousConnections ?? policy.connections
            return limit.map { state.connections < $0 } ?? true
        }
    }

    /// Takes a connection, here alone.
    func open() { state.withLock { $0.connections += 1 } }

    /// Gives a connection back, here alone; true when it was the last.
    func close() -> Bool {
        state.withLock { state in
            state.connections -= 1
            return state.connections <= 0
        }
    }

    /// Takes note that one of the connections carried a live session.
    func hasSession() {
        state.withLock { $0.hasSession = true }
        wider?.hasSession()
    }

    /// Takes bytes; false when the address or one of its networks holds as many as it may.
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

    /// Gives bytes back.
    func give(_ bytes: Int) {
        state.withLock { $0.heldBytes -= bytes }
        wider?.give(bytes)
    }
}

/// A TCP peer's address as 128 bits; an IPv4 address as IPv6 maps it (RFC 4291 section 2.5.5.2).
package struct PeerAddress: Sendable, Hashable {
    package let high: UInt64
    package let low: UInt64

    /// Creates an address from its halves.
    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Takes the address of a socket; nil for a Unix socket.
    init?(_ address: SocketAddress) {
        // The place of the address in `sockaddr_in` and `sockaddr_in6`, in network order.
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

/// The bounds on what the connections of one address, or of one network, take together.
package struct PeerPolicy: Sendable, Equatable {
    /// The addresses that are counted together.
    package struct Key: Sendable, Hashable {
        /// The address, or the first one of the network.
        package let address: PeerAddress
        /// The number of bits that its addresses have in common.
        package let prefix: Int

        package init(_ address: PeerAddress, prefix: Int = 128) {
            self.address = address
            self.prefix = prefix
        }
    }

    package let key: Key
    /// Open connections; nil for as many as it wants.
    package var connections: Int?
    /// Open connections until one of them has carried a live session.
    package var anonymousConnections: Int?
    /// Bytes received and not yet answered: undecoded, heads, and bodies of requests without a live session; nil for as
    /// many as it wants.
    package var heldBytes: Int?

    /// Creates a policy that bounds nothing.
    package init(key: Key) { self.key = key }
}
