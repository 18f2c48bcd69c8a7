import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// Limits on the costs that one line (an IPv6 /56) and one network (an IPv6 /48) may cause (SEC-119, SEC-121).
@Suite(.timeLimit(.minutes(2))) struct NetworkLimitTests {
    /// The first address of the n-th /64 of 2001:db8:`site`::/48.
    private static func phone(_ number: UInt64, site: UInt64 = 0) -> IPAddress {
        IPAddress(high: 0x2001_0DB8_0000_0000 | site << 16 | number, low: 1)
    }

    private static func key(_ number: UInt64) -> Digest? {
        Digest((0..<4).flatMap { _ in (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } })
    }

    private func take(
        _ ledger: ChargeLedger, _ item: ChargedItem, _ number: UInt64, from address: IPAddress,
        lasting: Duration = .seconds(600), payer: Digest? = nil, isGuess: Bool = false
    ) throws -> Duration? {
        ledger.take(
            item, try #require(Self.key(number)), from: address, lasting: lasting, payer: payer, isGuess: isGuess)
    }

    @Test(
        "An IPv6 address → limited by its /64, its /56 and its /48; an IPv4 address → limited by itself alone",
        arguments: [
            ("2001:db8:1:2fe::7", ["2001:db8:1:2fe::/64", "2001:db8:1:200::/56", "2001:db8:1::/48"]),
            ("2001:db8::", ["2001:db8::/64", "2001:db8::/56", "2001:db8::/48"]),
            (
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                ["ffff:ffff:ffff:ffff::/64", "ffff:ffff:ffff:ff00::/56", "ffff:ffff:ffff::/48"]
            ),
            ("192.0.2.1", ["192.0.2.1"]), ("::ffff:192.0.2.1", ["192.0.2.1"]),
        ])
    func levels(_ text: String, _ networks: [String]) throws {
        #expect(try #require(IPAddress(text)).limitedNetworks.map(\.description) == networks)
    }

    @Test(
        "An IPv6 address has a NAT64 prefix → it counts as the IPv4 address inside it; any other address counts as itself",
        arguments: [
            ("64:ff9b::c000:201", "192.0.2.1"), ("64:ff9b::", "0.0.0.0"),
            ("64:ff9b::1:c000:201", "64:ff9b::1:c000:201"),
            ("64:ff9b:1::c000:201", "64:ff9b:1::c000:201"), ("2001:db8:64::c000:201", "192.0.2.1"),
            ("2001:db8:64::1:0:0", "2001:db8:64::1:0:0"), ("2001:db8:65::c000:201", "2001:db8:65::c000:201"),
            ("192.0.2.1", "192.0.2.1"), ("::1", "::1"),
        ])
    func translators(_ text: String, _ expected: String) throws {
        // Only the /96 can be the prefix of an address translator. The configuration's other ranges are ignored.
        let further = ["2001:db8:64::/96", "2001:db8:65::/64", "2001:db8:66::1", "0.0.0.0/0"].compactMap {
            IPNetwork($0)
        }
        #expect(further.count == 4)
        #expect(AddressTranslators(further).client(try #require(IPAddress(text))).description == expected)
    }

    @Test(
        "The /64, the /56 and the /48 of an address begin with the same bits → they count as three different networks")
    func begin() throws {
        #expect(Set(try #require(IPAddress("2001:db8::1")).limitedNetworks).count == 3)
    }

    @Test(
        "A cap of pending logins is set → a line gets four addresses' shares, a network a quarter, and each at least one share",
        arguments: [
            (100_000, 2000, 8000, 25_000), (10_000, 200, 800, 2500), (1000, 64, 250, 250), (200, 64, 64, 64),
            (8, 4, 4, 4),
            (1, 1, 1, 1),
        ])
    func shares(pending: Int, address: Int, customer: Int, network: Int) {
        #expect(
            ChargeLimits(pending: pending).shares
                == LimitShares(address: address, customer: customer, network: network))
    }

    @Test("The largest possible rate is configured → shares and buckets work without an overflow")
    func largest() {
        #expect(LimitShares(perMinute: .max) == LimitShares(address: .max, customer: .max, network: .max))
        #expect(LimitShares(address: .max, of: .max).network == .max)
        #expect(TokenBuckets(perMinute: .max) { .zero }.take(Self.phone(1)) == nil)
    }

    @Test(
        "A /56 has used its four shares of pending logins, or a /48 its quarter → users in other networks can sign in (SEC-119)"
    )
    func hostile() throws {
        let clock = TestClock()
        let ledger = ChargeLedger(
            ChargeLimits(loginsPerMinute: 1_000_000, pending: 10_000), monotonic: clock.clock.monotonic)
        var next: UInt64 = 0
        /// Begins as many logins as the limits allow from these /64s of a site; returns the number of logins.
        func fill(_ phones: Range<UInt64>, site: UInt64) throws -> Int {
            var taken = 0
            for phone in phones {
                for _ in 0..<250 {
                    next += 1
                    if try take(ledger, .login, next, from: Self.phone(phone, site: site)) == nil { taken += 1 }
                }
            }
            return taken
        }
        #expect(try fill(0..<8, site: 1) == 800)
        // Phones on other lines of the same network may begin logins until the network has a quarter of the common cap.
        #expect(try fill(256..<264, site: 1) == 800)
        #expect(try fill(512..<520, site: 1) == 800)
        #expect(try fill(768..<776, site: 1) == 100)
        #expect(try take(ledger, .login, 9_999_998, from: Self.phone(60_000, site: 1)) == .seconds(60))
        #expect(try take(ledger, .login, 9_999_999, from: Self.phone(0, site: 2)) == nil)
        #expect(try take(ledger, .login, 10_000_000, from: try #require(IPAddress("192.0.2.1"))) == nil)
        // Charges that have expired no longer count for the address, the line or the network.
        clock.advance(.seconds(600))
        #expect(try fill(0..<8, site: 1) == 800)
    }

    @Test(
        "One /48 begins exchanges without end → it gets a quarter of all places for exchanges; other networks can use the rest"
    )
    func exchanges() throws {
        let ledger = ChargeLedger(
            ChargeLimits(loginsPerMinute: 1_000_000, pending: 1000), monotonic: TestClock().clock.monotonic)
        var taken = 0
        for number in 0..<2000
        where try take(ledger, .exchange, UInt64(number), from: Self.phone(UInt64(number))) == nil {
            taken += 1
        }
        #expect(taken == 250)
        #expect(try take(ledger, .exchange, 9999, from: Self.phone(0, site: 7)) == nil)
    }

    @Test("5,000 phones of one /48, each with its own /64, sign in at the same moment → all succeed (SEC-119)")
    func phones() throws {
        // The worst moment: the buckets had no time to refill, and all users are still at the provider.
        let ledger = ChargeLedger(ChargeLimits(), monotonic: TestClock().clock.monotonic)
        for phone in UInt64(0)..<5000 {
            #expect(try take(ledger, .login, phone, from: Self.phone(phone)) == nil)
            #expect(try take(ledger, .handoff, phone, from: Self.phone(phone), lasting: .seconds(120)) == nil)
        }
        #expect(ledger.count(.login, of: Self.phone(4999)) == 1)
        // At the same time, phones of another carrier can sign in.
        for phone in UInt64(0)..<1000 {
            #expect(try take(ledger, .login, 10_000 + phone, from: Self.phone(phone, site: 9)) == nil)
        }
    }

    @Test(
        "A limit per minute is set for an address → a line has eight times this limit, and a network a hundred times (SEC-119)"
    )
    func rates() throws {
        let time = Mutex(Duration.zero)
        let buckets = TokenBuckets(perMinute: 6) { time.withLock { $0 } }
        func taken(_ phones: Range<UInt64>) -> Int {
            phones.reduce(0) { sum, phone in
                sum + (0..<10).count { _ in buckets.take(Self.phone(phone)) == nil }
            }
        }
        #expect(taken(0..<1) == 6)
        #expect(taken(1..<256) == 42)
        #expect(taken(256..<4096) == 600 - 48)
        let before = buckets.count
        // A refused address gets no bucket.
        #expect(taken(40_000..<40_100) == 0 && buckets.count == before)
        #expect(buckets.take(Self.phone(0, site: 1)) == nil)
        // In ten seconds, the network's bucket gets back a hundred tokens, the line's bucket eight, and the address's bucket
        // one.
        time.withLock { $0 = .seconds(10) }
        #expect(taken(0..<1) == 1)
        #expect(taken(1..<256) == 7)
        #expect(taken(30_000..<34_000) == 92)
    }

    @Test(
        "Several limits refuse a request → the caller waits for the longest time of the address's, line's and network's limits"
    )
    func waiting() {
        let buckets = TokenBuckets(perMinute: 6) { .zero }
        for phone in UInt64(0)..<8 {
            for _ in 0..<6 { #expect(buckets.take(Self.phone(phone)) == nil) }
        }
        // The line may do this 48 times in a minute, so its next token comes after 60 s / 48. The address's next token comes
        // after 60 s / 6.
        #expect(buckets.take(Self.phone(9)) == .milliseconds(1250))
        #expect(buckets.take(Self.phone(0)) == .seconds(10))
    }

    @Test("An address's charge is released → the charges of its line and its network are released, too")
    func comingBack() throws {
        let ledger = ChargeLedger(
            ChargeLimits(loginsPerMinute: 1, pending: 1000), monotonic: TestClock().clock.monotonic)
        for phone in UInt64(0)..<8 { #expect(try take(ledger, .login, phone, from: Self.phone(phone)) == nil) }
        #expect(try take(ledger, .login, 8, from: Self.phone(8)) != nil)
        ledger.giveBack(exchange: try #require(Self.key(99)), gate: .login(try #require(Self.key(3))))
        #expect(try take(ledger, .login, 8, from: Self.phone(8)) == nil)
        #expect(try take(ledger, .login, 9, from: Self.phone(9)) != nil)
    }

    @Test("All charges of an address or network are removed → its entries in the book are removed, too")
    func forgetting() throws {
        var book = ChargeBook(capacity: 1000, shares: ChargeLimits(pending: 1000).shares)
        for number in UInt64(0)..<200 {
            book.add(
                ChargeBook.Receipt(address: Self.phone(number << 8), until: .seconds(600)),
                for: try #require(Self.key(number)))
        }
        #expect(book.holders == 401)
        for number in UInt64(0)..<200 { book.remove(try #require(Self.key(number))) }
        #expect(book.holders == 0)
    }

    @Test("New limits are adopted → they apply to address, line and network, and earlier charges stay")
    func adopting() throws {
        let ledger = ChargeLedger(
            ChargeLimits(loginsPerMinute: 1000, pending: 1000), monotonic: TestClock().clock.monotonic)
        for number in UInt64(0)..<250 { #expect(try take(ledger, .login, number, from: Self.phone(number)) == nil) }
        #expect(try take(ledger, .login, 1000, from: Self.phone(1000)) != nil)
        ledger.adopt(ChargeLimits(loginsPerMinute: 1000, pending: 2000))
        for number in UInt64(250)..<256 { #expect(try take(ledger, .login, number, from: Self.phone(number)) == nil) }
        ledger.adopt(ChargeLimits(loginsPerMinute: 1, pending: 100_000))
        // An address may begin one login in a minute, and its line eight.
        let taken = try (UInt64(0)..<20).count { number in
            try take(ledger, .login, 2000 + number, from: Self.phone(number)) == nil
        }
        #expect(taken == 8)
        #expect(try take(ledger, .login, 3000, from: Self.phone(256)) == nil)
    }
}
