import Synchronization
import Testing

@testable import BrokerWire

@Suite("The limits of one client address", .timeLimit(.minutes(1)))
struct PeerLedgerTests {
    private static let one = PeerAddress(high: 0, low: 0xFFFF_0101_0101)
    private static let proxy = PeerAddress(high: 0, low: 0xFFFF_0A00_0001)

    private func ledger() -> PeerLedger {
        PeerLedger { peer in
            var policy = PeerPolicy(key: PeerPolicy.Key(peer))
            guard peer != Self.proxy else { return [policy] }
            policy.connections = 4
            policy.anonymousConnections = 2
            policy.heldBytes = 10_000
            return [policy]
        }
    }

    @Test(
        "An address has as many connections as allowed → one more is refused; a trusted proxy has more → never refused (SEC-105)"
    )
    func connections() throws {
        let ledger = ledger()
        let first = try #require(ledger.open(Self.one))
        #expect(ledger.open(Self.one) != nil)
        #expect(ledger.open(Self.one) == nil)
        ledger.close(first)
        #expect(ledger.open(Self.one) != nil)
        for _ in 0..<10 { #expect(ledger.open(Self.proxy) != nil) }
    }

    @Test(
        "An address has a connection with a living session → it may open more connections, until all its connections have closed"
    )
    func session() throws {
        let ledger = ledger()
        let first = try #require(ledger.open(Self.one))
        first.hasSession()
        for _ in 0..<3 { #expect(ledger.open(Self.one) != nil) }
        #expect(ledger.open(Self.one) == nil)
        for _ in 0..<4 { ledger.close(first) }
        #expect(ledger.count == 0)
        for _ in 0..<2 { #expect(ledger.open(Self.one) != nil) }
        #expect(ledger.open(Self.one) == nil)
    }

    @Test(
        "Unanswered requests exceed an address's memory → further bytes are refused; an answer frees the bytes of its request"
    )
    func heldBytes() throws {
        let account = try #require(ledger().open(Self.one))
        var first = HeldBytes(account: account)
        var second = HeldBytes(account: account)
        // The first 4 KiB of each connection are not charged, because the limit on connections bounds them.
        var isKept = [first.add(4096), second.add(4096), first.add(8192)]
        #expect(isKept == [true, true, true])
        let isRefused = !second.add(8192)
        #expect(isRefused)
        first.keep(0)
        var third = HeldBytes(account: account)
        isKept = [third.add(12_000)]
        third.keep(0)
        for _ in 0..<100 {
            var one = HeldBytes(account: account)
            isKept.append(one.add(9000))
            one.keep(0)
        }
        #expect(!isKept.contains(false))
    }

    /// A ledger with two levels: each address, and its /64.
    ///
    /// `wide` is the number of connections that all addresses of a /64 may have together.
    private func levels(refused: PeerLedger.Observer? = nil, wide: Int = 3, bytes: Int = 20_000) -> PeerLedger {
        PeerLedger(refused: refused) { peer in
            var narrow = PeerPolicy(key: PeerPolicy.Key(peer))
            narrow.connections = 2
            narrow.heldBytes = 10_000
            var network = PeerPolicy(key: PeerPolicy.Key(PeerAddress(high: peer.high, low: 0), prefix: 64))
            network.connections = wide
            network.anonymousConnections = wide
            network.heldBytes = bytes
            return [narrow, network]
        }
    }

    private static func peer(_ network: UInt64, _ number: UInt64) -> PeerAddress {
        PeerAddress(high: network, low: number)
    }

    @Test(
        "A connection is accepted → its address and its network count it; a connection is refused → no count changes (SEC-105)"
    )
    func networks() throws {
        let refused = Mutex<[PeerPolicy.Key]>([])
        let ledger = levels(refused: { _, limit in refused.withLock { $0.append(limit) } })
        var open: [PeerAccount] = []
        for number in [1, 1, 2] { open.append(try #require(ledger.open(Self.peer(1, UInt64(number))))) }
        // If both limits are reached, the limit of the address is reported.
        #expect(ledger.open(Self.peer(1, 1)) == nil)
        #expect(ledger.open(Self.peer(1, 3)) == nil)
        #expect(refused.withLock { $0.map(\.prefix) } == [128, 64])
        // An address in another network may connect, because that network has a limit of its own.
        let other = try #require(ledger.open(Self.peer(2, 1)))
        for _ in 0..<100 { #expect(ledger.open(Self.peer(1, 4)) == nil) }
        #expect(ledger.count == 5)
        ledger.close(open.removeLast())
        open.append(try #require(ledger.open(Self.peer(1, 3))))
        for account in open + [other] { ledger.close(account) }
        #expect(ledger.count == 0)
    }

    @Test(
        "A network's request bytes use up its memory → more bytes are refused, and do not count for the network or the address"
    )
    func networkBytes() throws {
        let ledger = levels(bytes: 15_000)
        let one = try #require(ledger.open(Self.peer(1, 1)))
        let two = try #require(ledger.open(Self.peer(1, 2)))
        #expect(one.take(9000))
        #expect(!two.take(7000))
        #expect(two.take(6000))
        #expect(!two.take(1))
        one.give(9000)
        #expect(two.take(4000))
        #expect(!two.take(1))
    }

    @Test("An address's limit of connections changes while some are open → its next connection follows the new limit")
    func adoption() throws {
        let limit = Mutex(1)
        let ledger = PeerLedger { peer in
            var policy = PeerPolicy(key: PeerPolicy.Key(peer))
            policy.connections = limit.withLock { $0 }
            return [policy]
        }
        let first = try #require(ledger.open(Self.one))
        #expect(ledger.open(Self.one) == nil)
        limit.withLock { $0 = 2 }
        #expect(ledger.open(Self.one) != nil)
        limit.withLock { $0 = 1 }
        ledger.close(first)
        #expect(ledger.open(Self.one) == nil)
    }

    @Test(
        "A listener has as many connections as allowed → it stops accepting, reports this, and accepts again when one closes"
    )
    func cap() {
        let told = Mutex(0)
        let cap = ConnectionCap(maximum: 2) { told.withLock { $0 += 1 } }
        for _ in 0..<2 {
            #expect(cap.admits {})
            cap.opened()
        }
        #expect(told.withLock { $0 } == 0 && cap.count == 2)
        let resumed = Mutex(false)
        #expect(!cap.admits { resumed.withLock { $0 = true } })
        #expect(told.withLock { $0 } == 1)
        cap.closed()
        #expect(resumed.withLock { $0 } && cap.count == 1)
    }
}
