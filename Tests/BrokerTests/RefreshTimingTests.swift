import BrokerTestSupport
import Testing

@testable import Broker

@Suite("The time when a token is due for a refresh", .timeLimit(.minutes(2)))
struct RefreshTimingTests {
    private static let issued = WallTime(seconds: 1_795_000_000)

    /// Returns the time between the refresh of an access token and the token's end, in seconds.
    ///
    /// `life` is the token's lifetime in seconds, and `digestBegin` the first byte of the session's digest.
    private func lead(life: Int64, digestBegin: UInt8) -> Int64? {
        guard let token = Digest([digestBegin] + [UInt8](repeating: 7, count: 31)) else { return nil }
        let end = Self.issued.advanced(by: .seconds(life))
        let tokens = TokenSet(accessToken: Secret("a"), refreshToken: Secret("r"), expiresAt: end)
        let stored = StoredTokens(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"), tokens: tokens,
            issuedAt: Self.issued)
        return (0...life).first { second in
            RefreshTiming.isFresh(
                stored.access(version: 1), token, margin: .seconds(60), at: end.advanced(by: .zero - .seconds(second)))
        }.map { $0 - 1 }
    }

    @Test(
        "According to this clock, a token was issued more than a minute in the future → the token is due for a refresh")
    func future() throws {
        let token = try #require(Digest([UInt8](repeating: 7, count: 32)))
        let end = Self.issued.advanced(by: .seconds(3600))
        let stored = StoredTokens(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"),
            tokens: TokenSet(accessToken: Secret("a"), refreshToken: Secret("r"), expiresAt: end),
            issuedAt: Self.issued)
        func isFresh(_ seconds: Int64) -> Bool {
            RefreshTiming.isFresh(
                stored.access(version: 1), token, margin: .seconds(60), at: Self.issued.advanced(by: .seconds(seconds)))
        }
        #expect(isFresh(0) && isFresh(-60))
        #expect(!isFresh(-61) && !isFresh(-91 * 86_400))
    }

    @Test(
        "A token lives an hour → it is refreshed 60 to 63 s before its end, depending on the session, so that refreshes spread"
    )
    func jitter() {
        #expect(lead(life: 3600, digestBegin: 0) == 60)
        #expect(lead(life: 3600, digestBegin: 255) == 63)
        let leads = (0...255).compactMap { lead(life: 3600, digestBegin: UInt8($0)) }
        #expect(leads.allSatisfy { (60...63).contains($0) })
        #expect(Set(leads).count == 4)
    }

    @Test(
        "A token lives less than ten minutes → it is due for a refresh in the last tenth of its life",
        arguments: [300, 100, 50])
    func short(life: Int64) { #expect(lead(life: life, digestBegin: 255) == life / 10) }

    @Test(
        "A token's positive lifetime is over → the token has run out; its lifetime is zero or negative → it never runs out",
        arguments: [(10, 9, false), (10, 10, true), (10, -60, false), (0, 0, false), (-5, 0, false), (-5, 60, false)])
    func runOut(life: Int64, age: Int64, expected: Bool) {
        let access = StoredTokens(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"),
            tokens: TokenSet(accessToken: Secret("a"), expiresAt: Self.issued.advanced(by: .seconds(life))),
            issuedAt: Self.issued
        ).access(version: 1)
        #expect(RefreshTiming.hasRunOut(access, at: Self.issued.advanced(by: .seconds(age))) == expected)
    }

    @Test("A token's end is unknown → the token is served until an upstream refuses it")
    func unknownEnd() throws {
        let token = try #require(Digest([UInt8](repeating: 1, count: 32)))
        let stored = StoredTokens(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"),
            tokens: TokenSet(accessToken: Secret("a")), issuedAt: Self.issued)
        let later = Self.issued.advanced(by: .seconds(90 * 86_400))
        #expect(RefreshTiming.isFresh(stored.access(version: 1), token, margin: .seconds(60), at: later))
        #expect(RefreshTiming.isUsable(stored.access(version: 1), at: later))
        #expect(!RefreshTiming.hasRunOut(stored.access(version: 1), at: later))
    }
}
