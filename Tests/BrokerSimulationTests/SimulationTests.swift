import BrokerSimulation
import Testing

/// The deterministic simulation: no seed may break a promise (guarantees 1 to 4, 6 and 9 to 11).
///
/// A seed runs without a suspension, so the tests yield after each seed. `scripts/simulate` runs many more seeds.
@Suite(.serialized, .timeLimit(.minutes(2))) struct SimulationTests {
    @Test(
        "Each scenario of the simulation, with one kind of fault, runs with five seeds → no broken rule and no loss",
        .timeLimit(.minutes(2)), arguments: Scenario.allCases)
    func scenario(_ scenario: Scenario) async {
        for seed in 1...5 as ClosedRange<UInt64> {
            let verdict = Simulation(seed: seed, scenario).run()
            #expect(verdict.isClean, "seed \(seed): \(verdict)")
            await Task.yield()
        }
    }

    @Test(
        "The simulation runs 25 seeds with mixed faults → no wrongful log-out, no broken rule and no loss",
        .timeLimit(.minutes(2)))
    func mixed() async {
        for seed in 1...25 as ClosedRange<UInt64> {
            let verdict = Simulation(seed: seed).run()
            #expect(verdict.isClean, "seed \(seed): \(verdict)")
            await Task.yield()
        }
    }

    @Test("The simulation runs one seed twice → equal traces; it runs another seed → another trace")
    func traces() async {
        func trace(_ seed: UInt64) -> String? {
            let simulation = Simulation(seed: seed, ports: true)
            _ = simulation.run()
            return simulation.portSummary
        }
        let first = trace(3)
        #expect(first != nil)
        #expect(trace(3) == first)
        #expect(trace(4) != first)
    }
}
