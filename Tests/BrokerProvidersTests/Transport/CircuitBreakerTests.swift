import Testing

@testable import BrokerProviders

@Suite("The circuit breaker of a provider's endpoint", .timeLimit(.minutes(2)))
struct CircuitBreakerTests {
    private func breaker() -> CircuitBreaker { CircuitBreaker(failuresToOpen: 3, pause: .seconds(5)) }

    private func opened() -> CircuitBreaker {
        var breaker = breaker()
        for _ in 0..<3 { breaker.fail(at: .zero) }
        return breaker
    }

    @Test("Three failures in a row → the breaker opens, and refuses calls until the pause ends (SEC-120)")
    func opens() {
        var breaker = opened()
        #expect(breaker.state == .open(until: .seconds(5), pause: .seconds(5)))
        let admitted = breaker.admit(at: .seconds(4.9))
        #expect(!admitted)
    }

    @Test("One success after every two failures → the breaker stays closed")
    func answersReset() {
        var breaker = breaker()
        for _ in 0..<10 {
            breaker.fail(at: .zero)
            breaker.fail(at: .zero)
            breaker.succeed()
        }
        #expect(breaker.state == .closed(failures: 0))
    }

    @Test(
        "The breaker's pause is over, and two callers want to call → one call is sent as a probe, and the other is refused"
    )
    func probes() {
        var breaker = opened()
        let first = breaker.admit(at: .seconds(5))
        let second = breaker.admit(at: .seconds(5))
        #expect(first && !second)
    }

    @Test("Six probes fail one after another → the pause doubles each time, up to a minute")
    func doubles() {
        var breaker = opened()
        var now = Duration.seconds(5)
        var pauses: [Duration] = []
        for _ in 0..<6 {
            _ = breaker.admit(at: now)
            breaker.fail(at: now)
            guard case .open(let until, let pause) = breaker.state else { return #expect(Bool(false)) }
            pauses.append(pause)
            now = until
        }
        #expect(pauses == [10, 20, 40, 60, 60, 60].map { .seconds($0) })
    }

    @Test("The breaker's probe gets an answer → the breaker closes")
    func closes() {
        var breaker = opened()
        _ = breaker.admit(at: .seconds(5))
        breaker.succeed()
        #expect(breaker.state == .closed(failures: 0))
    }

    @Test("The caller of the breaker's probe gives up → the breaker admits another call as a probe")
    func forgets() {
        var breaker = opened()
        _ = breaker.admit(at: .seconds(5))
        breaker.forget(at: .seconds(5))
        let next = breaker.admit(at: .seconds(5))
        #expect(next)
    }

    @Test(
        "A call begins, then the breaker opens, and then this call fails during the pause → the pause does not change")
    func lateFailures() {
        var breaker = opened()
        breaker.fail(at: .seconds(4))
        #expect(breaker.state == .open(until: .seconds(5), pause: .seconds(5)))
    }
}
