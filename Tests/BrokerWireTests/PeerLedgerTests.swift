import Testing

@testable import BrokerWire

@Suite("What one address may take", .timeLimit(.minutes(1)))
struct PeerLedgerTests {
    private static let one = PeerAddress(high: 0, low: 0xFFFF_0101_0101)
    private static let proxy = PeerAddress(high: 0, low: 0xFFFF_0A00_0001)

    private func ledger() -> PeerLedger {
        PeerLedger { peer in
            var policy = PeerPolicy(key: peer)
            guard peer != Self.proxy else { return policy }
            policy.connections = 4
            policy.anonymousConnections = 2
            policy.heldBytes = 10_000
            return policy
        }
    }

    @Test("One address has only so many connections, exempt ones as many as they want (SEC-105)")
    func connections() throws {
        let ledger = ledger()
        let first = try #require(ledger.open(Self.one))
        #expect(ledger.open(Self.one) != nil)
        #expect(ledger.open(Self.one) == nil)
        ledger.close(first)
        #expect(ledger.open(Self.one) != nil)
        for _ in 0..<10 { #expect(ledger.open(Self.proxy) != nil) }
    }

    @Test("An address whose connection carried a live session has more, until all of them are closed")
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

    @Test("Bytes beyond the address's share are refused, and given back when they are answered")
    func heldBytes() throws {
        let account = try #require(ledger().open(Self.one))
        var first = HeldBytes(account: account)
        var second = HeldBytes(account: account)
        // The first 4 KiB of each connection are the number of connections' to bound.
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
}
