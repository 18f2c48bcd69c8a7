import BrokerTestSupport
import Synchronization
import Testing

@testable import Broker

/// The signature checks of sessions' proofs, and the address and session that are charged for each of them (guarantee 8).
@Suite("Charges for signature checks", .timeLimit(.minutes(1)))
struct ProofChargeTests {
    /// A counter that several tasks use, with the highest value that it has had.
    private final class Count: Sendable {
        private let state = Mutex((value: 0, most: 0))

        var value: Int { state.withLock(\.value) }
        var most: Int { state.withLock(\.most) }

        func add(_ count: Int) {
            state.withLock { state in
                state.value += count
                state.most = max(state.most, state.value)
            }
        }
    }

    private static let limit = 10
    private let clock = TestClock()
    private let ledger: ChargeLedger
    private let address = IPAddress(v4: 0x0A00_0001)

    init() {
        ledger = ChargeLedger(
            ChargeLimits(wrongTokensPerMinute: Self.limit), monotonic: clock.clock.monotonic)
    }

    private static func session(_ number: UInt8) throws -> Digest {
        try #require(Digest(Array(repeating: number, count: 32)))
    }

    private static func phone(_ number: UInt64) -> IPAddress {
        IPAddress(high: 0x2001_0DB8_0000_0000 | number, low: 1)
    }

    /// The outcome of a check: the signature was right, the signature was wrong, or the check was refused.
    private enum Outcome: Equatable { case right, wrong, refused }

    private func check(_ charge: ProofCharge, _ session: Digest, isRight: Bool) async -> Outcome {
        do throws(BrokerProblem) {
            return try await charge.check(of: session) { isRight ? nil : .signature } == nil ? .right : .wrong
        } catch { return error.code == .rateLimited && error.proof == .limited ? .refused : .right }
    }

    private func from(_ address: IPAddress) -> ProofCharge { Charge(address, in: ledger).ofProofs }

    @Test(
        "An address sends 2,000 wrong signatures for one session, one by one or at once → only ten are checked in a minute"
    )
    func spoiled() async throws {
        let session = try Self.session(1)
        let charge = from(address)
        for minute in 0..<2 {
            var checks = 0
            for _ in 0..<2000 where await check(charge, session, isRight: false) == .wrong { checks += 1 }
            #expect(checks == Self.limit, "minute \(minute)")
            clock.advance(.seconds(60))
        }
        let (checks, refused) = (Count(), Count())
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<2000 {
                group.addTask {
                    do throws(BrokerProblem) {
                        _ = try await charge.check(of: session) {
                            checks.add(1)
                            await Task.yield()
                            return .signature
                        }
                    } catch { refused.add(1) }
                }
            }
        }
        #expect(checks.value == Self.limit)
        #expect(refused.value == 2000 - Self.limit)
    }

    @Test("An honest phone sends 500 good proofs at once → every proof is checked, and no charge remains")
    func honest() async throws {
        let session = try Self.session(1)
        let charge = from(address)
        let underWay = Count()
        let outcomes = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<500 {
                group.addTask {
                    do throws(BrokerProblem) {
                        return try await charge.check(of: session) {
                            underWay.add(1)
                            await Task.yield()
                            underWay.add(-1)
                            return nil
                        } == nil
                    } catch { return false }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count == 500 && outcomes.allSatisfy { $0 })
        // Each check in progress may find a wrong signature. So at most as many checks may run at a time as wrong signatures
        // are allowed.
        #expect(underWay.most <= Self.limit)
        #expect(ledger.signatureFaults.count == 0)
    }

    @Test(
        "An address has used up its signature checks for one session → its other sessions and other addresses are unaffected"
    )
    func others() async throws {
        let (victim, other) = (try Self.session(1), try Self.session(2))
        for _ in 0..<100 { _ = await check(from(address), victim, isRight: false) }
        #expect(await check(from(address), victim, isRight: true) == .refused)
        #expect(await check(from(address), other, isRight: true) == .right)
        #expect(await check(from(IPAddress(v4: 0x0A00_0002)), victim, isRight: true) == .right)
        // In six seconds, the bucket gets back a tenth of the tokens for a minute, which is one token.
        clock.advance(.seconds(6))
        #expect(await check(from(address), victim, isRight: true) == .right)
        #expect(await check(from(address), victim, isRight: false) == .wrong)
        #expect(await check(from(address), victim, isRight: true) == .refused)
    }

    @Test(
        "A backend sends wrong proofs of a session → the backend's checks for this session are used up; the app's own remain"
    )
    func backends() async throws {
        let (victim, other) = (try Self.session(1), try Self.session(2))
        let backend = ProofCharge(ofBackendIn: ledger)
        var checks = 0
        for _ in 0..<100 where await check(backend, victim, isRight: false) == .wrong { checks += 1 }
        #expect(checks == Self.limit)
        #expect(await check(backend, victim, isRight: true) == .refused)
        #expect(await check(backend, other, isRight: true) == .right)
        #expect(await check(from(address), victim, isRight: true) == .right)
    }

    @Test(
        "A line or network sends wrong proofs → a line gets 8 times the checks of one address, and a network 100 times (SEC-119)"
    )
    func networks() async throws {
        let session = try Self.session(1)
        var checks = 0
        for number in 0..<UInt64(256) {
            for _ in 0..<20 where await check(from(Self.phone(number)), session, isRight: false) == .wrong {
                checks += 1
            }
        }
        #expect(checks == 8 * Self.limit)
        for number in 256..<UInt64(65_536) where number % 16 == 0 {
            for _ in 0..<20 where await check(from(Self.phone(number)), session, isRight: false) == .wrong {
                checks += 1
            }
        }
        #expect(checks == 100 * Self.limit)
    }

    @Test(
        "Wrong proofs come for many sessions → the table of charges stays bounded; a session's entry is dropped a minute later"
    )
    func bounded() async throws {
        let charges = SignatureCharges(perMinute: 2, maximum: 8, monotonic: clock.clock.monotonic)
        func check(_ number: UInt8, _ refusal: ProofRefusal?) async -> Bool {
            guard let session = try? Self.session(number) else { return false }
            do throws(BrokerProblem) {
                _ = try await charges.check(of: session, from: address) { refusal }
                return true
            } catch { return false }
        }
        for number in 0..<UInt8(200) { _ = await check(number, .signature) }
        #expect(charges.count <= 9)
        clock.advance(.seconds(60))
        #expect(await check(250, nil))
        #expect(charges.count <= 1)
    }
}
