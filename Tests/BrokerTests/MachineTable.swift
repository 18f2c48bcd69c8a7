import BrokerTestSupport
import BrokerVault
import Testing

@testable import Broker

/// A refresh machine and its goal, checked against a table of events and expected actions.
struct MachineTable {
    let need: RefreshStateMachine.Need
    let goal: any FlightGoal

    /// Returns the goal of a flight, given the kind of its provider call.
    static func goal(_ call: RefreshCall) throws -> any FlightGoal {
        guard call != .plain else { return OwnToken() }
        let broker = try TestBroker()
        let target = TokenTarget(grant: call == .exchange ? .exchange : .refresh, audience: "a")
        let key = target.key(of: broker.vault.digest([1]), broker.vault)
        return WantedTarget(target: target, key: key).goal
    }

    func check(_ steps: [(Event, RefreshStateMachine.Action)]) {
        var machine = RefreshStateMachine()
        for (index, (event, expected)) in steps.enumerated() {
            let action = machine.handle(event.input(need, goal, machine.progress))
            #expect(action == expected, "step \(index)")
        }
    }

    /// An event of a table.
    ///
    /// If the event is a read of the session's row, it has the facts in the row. The flight's goal derives the machine's input
    /// from these facts.
    enum Event: Sendable {
        case read(
            version: Int64, live: Bool, fresh: Bool, usable: Bool, refreshable: Bool, unchecked: Bool = false,
            withheld: FoundToken.Withheld? = nil, standing: Standing = .ofRow, needsOwn: Bool = false)
        case input(RefreshStateMachine.Input)

        static let busy = Event.input(.busy)
        static let heldBack = Event.input(.heldBack)
        static let moved = Event.input(.moved)
        static let gone = Event.input(.gone)
        static let storeFailed = Event.input(.storeFailed)
        static let patienceOver = Event.input(.patienceOver)
        static let refreshed = Event.input(.refreshed)
        static let exchanged = Event.input(.exchanged)
        static let kept = Event.input(.kept)
        static let notSent = Event.input(.notSent)
        static let retryable = Event.input(.retryable)
        static let unusable = Event.input(.unusable)
        static let lost = Event.input(.lost)
        static let committed = Event.input(.committed)
        static let superseded = Event.input(.superseded)
        static let ended = Event.input(.ended)

        static func claimed(lossKnown: Bool, settled: Bool) -> Event {
            .input(.claimed(RefreshStateMachine.Claimed(isLossKnown: lossKnown, isSettled: settled)))
        }

        static func rejected(_ refusal: RefreshStateMachine.Refusal) -> Event { .input(.rejected(refusal)) }

        static func subjectChecked(_ check: RefreshStateMachine.SubjectCheck) -> Event {
            .input(.subjectChecked(check))
        }

        static func condemned(_ isCondemned: Bool) -> Event { .input(.condemned(isCondemned)) }

        /// The version of the access token that the flight found in the row.
        enum Standing: Sendable, Equatable {
            /// The token has the same version as the session's row.
            case ofRow
            case version(Int64)
            /// The token has yet to be fetched from the provider.
            case missing
        }

        func input(
            _ need: RefreshStateMachine.Need, _ goal: any FlightGoal, _ progress: RefreshStateMachine.Progress
        ) -> RefreshStateMachine.Input {
            switch self {
            case .input(let input): return input
            case .read(
                let version, let live, let fresh, let usable, let refreshable, let unchecked, let withheld,
                let standing, let needsOwn):
                guard live else { return .gone }
                let own: Int64? =
                    switch standing {
                    case .ofRow: version
                    case .version(let version): version
                    case .missing: nil
                    }
                let found = FoundToken(
                    version: own, isFresh: fresh, isUsable: usable, isRefreshable: refreshable, withheld: withheld,
                    rest: nil, needsOwn: needsOwn)
                return .read(
                    RefreshStateMachine.Reading(
                        version: version, isUnchecked: unchecked, isServable: usable && need == .expiring,
                        next: goal.next(found, need, after: progress)))
            }
        }
    }
}
