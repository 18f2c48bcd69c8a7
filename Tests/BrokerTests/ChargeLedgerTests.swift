import BrokerTestSupport
import Testing

@testable import Broker

/// The charges of addresses: shares, buckets, and the memory that both take.
@Suite(.timeLimit(.minutes(2))) struct ChargeLedgerTests {
    private static func address(_ number: UInt64) -> IPAddress {
        IPAddress(high: 0, low: 0xFFFF_0A00_0000 + number)
    }

    private static func key(_ number: UInt64) -> Digest? {
        Digest((0..<4).flatMap { _ in (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } })
    }

    private func take(
        _ ledger: ChargeLedger, _ item: ChargedItem, _ number: UInt64, from address: IPAddress,
        lasting: Duration = .seconds(600), payer: Digest? = nil
    ) throws -> Duration? {
        ledger.take(
            item, try #require(Self.key(number)), from: address, lasting: lasting, payer: payer, isGuess: false)
    }

    @Test(
        "A cap of pending logins is set → an address's share is a fiftieth, but at least 64 and at most half the cap (SEC-119)",
        arguments: [(100_000, 2000), (3200, 64), (3250, 65), (300, 64), (128, 64), (100, 50), (3, 1), (1, 1)])
    func share(pending: Int, share: Int) {
        #expect(ChargeLimits(pending: pending).share == share)
    }

    @Test(
        "An address's share of pending logins is full → only this address is refused, until a login expires or succeeds (SEC-119)"
    )
    func shares() throws {
        let clock = TestClock()
        let ledger = ChargeLedger(
            ChargeLimits(loginsPerMinute: 1_000_000, pending: 200), monotonic: clock.clock.monotonic)
        let one = Self.address(1)
        for number in 0..<64 {
            #expect(try take(ledger, .login, UInt64(number), from: one) == nil)
            clock.advance(.seconds(1))
        }
        #expect(try take(ledger, .login, 64, from: one) != nil)
        #expect(try take(ledger, .login, 65, from: Self.address(2)) == nil)
        ledger.giveBack(exchange: try #require(Self.key(999)), gate: .login(try #require(Self.key(3))))
        #expect(try take(ledger, .login, 66, from: one) == nil)
        #expect(try take(ledger, .login, 67, from: one) != nil)
        // The first login was charged 64 seconds ago, and its charge lasts 600 seconds.
        clock.advance(.seconds(535))
        #expect(try take(ledger, .login, 67, from: one) != nil)
        clock.advance(.seconds(1))
        #expect(try take(ledger, .login, 67, from: one) == nil)
        #expect(ledger.count(.login, of: one) == 64)
        clock.advance(.seconds(600))
        #expect(ledger.count(.login, of: one) == 0)
    }

    @Test(
        "One exchange is charged fifty times → it counts once; two addresses of one IPv6 /64 are charged → they count as one"
    )
    func once() throws {
        let clock = TestClock()
        let ledger = ChargeLedger(ChargeLimits(loginsPerMinute: 2), monotonic: clock.clock.monotonic)
        let one = try #require(IPAddress("2001:db8::1"))
        let neighbour = try #require(IPAddress("2001:db8::ffff"))
        for _ in 0..<50 { #expect(try take(ledger, .exchange, 1, from: one) == nil) }
        #expect(try take(ledger, .login, 2, from: neighbour) == nil)
        #expect(try take(ledger, .login, 3, from: one) == .seconds(30))
        #expect(ledger.count(.login, of: one) == 1)
    }

    @Test(
        "A login becomes a session → the charges of the login and its handoff are released, once and not earlier (SEC-119)"
    )
    func comingBack() throws {
        let clock = TestClock()
        let ledger = ChargeLedger(ChargeLimits(loginsPerMinute: 1), monotonic: clock.clock.monotonic)
        let one = Self.address(1)
        let login = try #require(Self.key(1))
        #expect(try take(ledger, .login, 1, from: one) == nil)
        #expect(try take(ledger, .handoff, 1, from: one) == nil)
        #expect(try take(ledger, .login, 2, from: one) != nil)
        ledger.drop(.login, try #require(Self.key(2)))
        #expect(try take(ledger, .login, 2, from: one) != nil)
        ledger.giveBack(exchange: try #require(Self.key(9)), gate: .login(login))
        #expect(try take(ledger, .handoff, 2, from: one) == nil)
        #expect(try take(ledger, .login, 2, from: one) == nil)
        #expect(try take(ledger, .login, 3, from: one) != nil)
        // The same charge is refunded only once.
        ledger.giveBack(exchange: try #require(Self.key(9)), gate: .login(login))
        #expect(try take(ledger, .login, 3, from: one) != nil)
    }

    @Test("A registration becomes a session → the charge of its login is released, too")
    func registrations() throws {
        let clock = TestClock()
        let ledger = ChargeLedger(ChargeLimits(loginsPerMinute: 1), monotonic: clock.clock.monotonic)
        let one = Self.address(1)
        #expect(try take(ledger, .login, 1, from: one) == nil)
        // The bucket is empty. The registration takes no token, because the charge for its login includes the registration.
        #expect(try take(ledger, .registration, 2, from: one, lasting: .seconds(900), payer: Self.key(1)) == nil)
        #expect(try take(ledger, .login, 3, from: one) != nil)
        ledger.giveBack(exchange: try #require(Self.key(9)), gate: .registration(try #require(Self.key(2))))
        #expect(try take(ledger, .login, 3, from: one) == nil)
        #expect(ledger.count(.registration, of: one) == 0)
    }

    @Test(
        "Handoffs from 5,000 addresses → the book of charges stays within its cap of 500, and forgets expired handoffs")
    func bounded() throws {
        let clock = TestClock()
        let ledger = ChargeLedger(ChargeLimits(loginsPerMinute: 10, pending: 500), monotonic: clock.clock.monotonic)
        var taken = 0
        for number in 0..<5000 {
            let number = UInt64(number)
            if try take(ledger, .handoff, number, from: Self.address(number), lasting: .seconds(120)) == nil {
                taken += 1
            }
        }
        #expect(taken == 500)
        clock.advance(.seconds(120))
        #expect(try take(ledger, .handoff, 6000, from: Self.address(1), lasting: .seconds(120)) == nil)
        #expect(ledger.count(.handoff, of: Self.address(2)) == 0)
    }

    @Test("10,000 charges are added and released → the book of charges is empty")
    func churn() throws {
        var book = ChargeBook(capacity: 100, shares: LimitShares(address: 50, of: 100))
        for number in 0..<10_000 {
            let key = try #require(Self.key(UInt64(number)))
            book.add(ChargeBook.Receipt(address: Self.address(1), until: .seconds(600)), for: key)
            book.remove(key)
        }
        #expect(book.count == 0 && book.count(of: Self.address(1)) == 0)
        #expect(book.places <= 128)
    }

    @Test(
        "A secret is guessed, and the address has no login starts left → the guess is not also charged as a wrong token (SEC-121)"
    )
    func refusedGuess() throws {
        let clock = TestClock()
        let ledger = ChargeLedger(
            ChargeLimits(loginsPerMinute: 1, wrongTokensPerMinute: 2), monotonic: clock.clock.monotonic)
        let one = Self.address(1)
        #expect(try take(ledger, .login, 1, from: one) == nil)
        let key = try #require(Self.key(2))
        for _ in 0..<5 {
            #expect(ledger.take(.exchange, key, from: one, lasting: .seconds(60), payer: nil, isGuess: true) != nil)
        }
        #expect(ledger.takeWrongToken(from: one) == nil)
        #expect(ledger.takeWrongToken(from: one) == nil)
        #expect(ledger.takeWrongToken(from: one) != nil)
    }

    @Test("Many logins are burned → the burned logins do not count in the cap of pending logins (SEC-119)")
    func burned() throws {
        let clock = TestClock()
        let ledger = ChargeLedger(
            ChargeLimits(loginsPerMinute: 1_000_000, pending: 100), monotonic: clock.clock.monotonic)
        // The book has room for twice the cap of logins, because burned logins stay in it until they expire.
        for number in UInt64(0)..<100 { #expect(try take(ledger, .login, number, from: Self.address(number)) == nil) }
        for number in UInt64(100)..<200 { #expect(try take(ledger, .login, number, from: Self.address(number)) == nil) }
        #expect(try take(ledger, .login, 200, from: Self.address(200)) == .seconds(60))
        // Only logins are burned, so the cap of handoffs stays at a hundred.
        for number in UInt64(0)..<100 { #expect(try take(ledger, .handoff, number, from: Self.address(number)) == nil) }
        #expect(try take(ledger, .handoff, 100, from: Self.address(100)) == .seconds(60))
    }

    @Test(
        "The table of token calls has room for 100 logins, and 300 come → 100 are counted; half an hour later, it has room again"
    )
    func calls() throws {
        let clock = TestClock()
        let ledger = ChargeLedger(ChargeLimits(pending: 100), monotonic: clock.clock.monotonic)
        for number in UInt64(0)..<300 { ledger.countCall(of: try #require(Self.key(number))) }
        let counted = try (UInt64(0)..<300).count { ledger.calls(of: try #require(Self.key($0))) > 0 }
        #expect(counted == 100)
        // The table is full, but logins that are already in it are still counted.
        ledger.countCall(of: try #require(Self.key(7)))
        #expect(ledger.calls(of: try #require(Self.key(7))) == 2)
        clock.advance(.seconds(1801))
        ledger.countCall(of: try #require(Self.key(299)))
        #expect(ledger.calls(of: try #require(Self.key(299))) == 1)
    }

    @Test("A charge is released into a full bucket → the bucket stays at its size (SEC-119)")
    func refunds() {
        let time = TestClock()
        let buckets = TokenBuckets(perMinute: 5, monotonic: time.clock.monotonic)
        let one = Self.address(1)
        for _ in 0..<5 { #expect(buckets.take(one) == nil) }
        time.advance(.seconds(60))
        for _ in 0..<5 { buckets.giveBack(one) }
        for _ in 0..<5 { #expect(buckets.take(one) == nil) }
        #expect(buckets.take(one) != nil)
    }
}
