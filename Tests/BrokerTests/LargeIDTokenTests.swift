import BrokerTestSupport
import Testing

@testable import Broker

@Suite("Large id_tokens and several keys", .timeLimit(.minutes(2)))
struct LargeIDTokenTests {
    @Test("An id_token is over 16 KiB → it is not stored with its session; the other tokens are stored")
    func stored() throws {
        for (length, isKept) in [(16_385, false), (16_384, true)] {
            let idToken = Secret(String(repeating: "a", count: length))
            let tokens = TokenSet(accessToken: Secret("at-1"), refreshToken: Secret("rt-1"), idToken: idToken)
            let stored = StoredTokens(
                provider: ProviderName(unchecked: "p"), client: ClientName(unchecked: "c"), tokens: tokens,
                issuedAt: WallTime(seconds: 1_800_000_000), uncheckedIDToken: idToken)
            let record = stored.record
            let again = try StoredTokens(record: record)
            #expect((again.tokens.idToken != nil) == isKept && (again.uncheckedIDToken != nil) == isKept)
            #expect(again.tokens.refreshToken?.reveal() == "rt-1")
            #expect(record.count < 1000 || isKept)
        }
    }

    @Test(
        "A token's check fetches keys → each fetch is charged as a wrong token; the token verifies → charges released (SEC-26)"
    )
    func charges() throws {
        let clock = TestClock()
        let ledger = ChargeLedger(ChargeLimits(wrongTokensPerMinute: 4), monotonic: clock.clock.monotonic)
        let charge = Charge(IPAddress(high: 0, low: 0xFFFF_0A00_0001), in: ledger)
        let good = KeyFetchCharge(charge)
        for _ in 0..<4 { #expect(good.take()) }
        #expect(good.isTaken && good.refusal == nil)
        good.giveBack()
        let forged = KeyFetchCharge(charge)
        for _ in 0..<4 { #expect(forged.take()) }
        let next = KeyFetchCharge(charge)
        #expect(!next.take() && next.refusal != nil)
    }
}
