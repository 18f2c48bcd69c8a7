import BrokerSimulation
import FoundationEssentials
import Glibc

/// Runs the simulation over many seeds, or replays one: `simulate COUNT [FIRST]`, `simulate seed N`,
/// `simulate scenario NAME COUNT`, `simulate scenarios COUNT` (each named scenario).
///
/// `simulate traces COUNT [FIRST]` prints a line for each seed: the number of calls through the broker's ports, and a hash of
/// them. Two versions of the broker behave alike if all lines are equal. `simulate trace N [NAME]` prints one seed's calls.
@main
enum Simulate {
    static func main() {
        // Without this variable, the order of dictionaries differs between runs, and so would two runs of a seed.
        if getenv("SWIFT_DETERMINISTIC_HASHING") == nil {
            setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
            let arguments = CommandLine.unsafeArgv
            execv("/proc/self/exe", arguments)
        }
        let arguments = Array(CommandLine.arguments.dropFirst())
        if arguments.first == "seed", let seed = arguments.dropFirst().first.flatMap({ UInt64($0) }) {
            let scenario = arguments.dropFirst(2).first.flatMap { Scenario(rawValue: $0) }
            let verdict = Simulation(seed: seed, scenario, trace: true).run()
            print(verdict.line(seeds: 1))
            exit(verdict.isClean ? 0 : 1)
        }
        if arguments.first == "trace", let seed = arguments.dropFirst().first.flatMap({ UInt64($0) }) {
            let scenario = arguments.dropFirst(2).first.flatMap { Scenario(rawValue: $0) }
            let simulation = Simulation(seed: seed, scenario, ports: true, printsPorts: true)
            exit(simulation.run().isClean ? 0 : 1)
        }
        if arguments.first == "traces" {
            let numbers = arguments.dropFirst().compactMap { UInt64($0) }
            for seed in (numbers.dropFirst().first ?? 1)..<(numbers.dropFirst().first ?? 1) + (numbers.first ?? 100) {
                let simulation = Simulation(seed: seed, ports: true)
                _ = simulation.run()
                print("seed \(seed): \(simulation.portSummary ?? "")")
            }
            exit(0)
        }
        if arguments.first == "scenario", let scenario = arguments.dropFirst().first.flatMap({ Scenario(rawValue: $0) })
        {
            run(count: arguments.dropFirst(2).first.flatMap { UInt64($0) } ?? 100, first: 1, scenario)
        }
        if arguments.first == "scenarios" {
            let count = arguments.dropFirst().first.flatMap { UInt64($0) } ?? 40
            let unclean = Scenario.allCases.filter { scenario in
                let total = verdict(count: count, first: 1, scenario)
                print("\(scenario.rawValue): \(total.line(seeds: Int(count)))")
                return !total.isClean
            }
            exit(unclean.isEmpty ? 0 : 1)
        }
        run(
            count: arguments.first.flatMap { UInt64($0) } ?? 1000,
            first: arguments.dropFirst().first.flatMap { UInt64($0) } ?? 1, nil)
    }

    private static func run(count: UInt64, first: UInt64, _ scenario: Scenario?) -> Never {
        let total = verdict(count: count, first: first, scenario)
        print("\(total.beyondSaving) sessions ended with refresh_lost where nobody could save them")
        print(total.line(seeds: Int(count)))
        exit(total.isClean ? 0 : 1)
    }

    /// Simulates the seeds, and prints the first twenty that broke a promise.
    private static func verdict(count: UInt64, first: UInt64, _ scenario: Scenario?) -> Verdict {
        var total = Verdict()
        var shown = 0
        for seed in first..<first + count {
            let verdict = Simulation(seed: seed, scenario).run()
            if !verdict.isClean, shown < 20 {
                shown += 1
                print("seed \(seed): \(verdict.line(seeds: 1))")
            }
            total += verdict
        }
        return total
    }
}
