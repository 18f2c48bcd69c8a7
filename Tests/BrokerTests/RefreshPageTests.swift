import Foundation
import Testing

@testable import Broker

/// The page docs/internals/a-refresh.md draws the states of the refresh machine, and the moves between them.
@Suite("The page about the refresh", .timeLimit(.minutes(1))) struct RefreshPageTests {
    typealias Machine = RefreshStateMachine

    /// Every event of the machine.
    ///
    /// If the next state depends on an event's payload, each such payload is in the list.
    private static let events: [Machine.Input] =
        [
            .gone, .busy, .heldBack, .moved, .storeFailed, .patienceOver, .refreshed, .exchanged, .kept, .notSent,
            .retryable, .unusable, .lost, .committed, .superseded, .ended, .condemned(true), .condemned(false),
            .claimed(Machine.Claimed(isLossKnown: false, isSettled: true)),
            .claimed(Machine.Claimed(isLossKnown: true, isSettled: false)),
        ]
        + [Machine.SubjectCheck.same, .another, .unknown].map { .subjectChecked($0) }
        + [Machine.Refusal.invalidGrant, .counted(enough: true), .counted(enough: false), .unclear, .target].map {
            .rejected($0)
        }
        + [false, true].flatMap { isUnchecked in
            [Machine.NextStep.finish(.useStored), .call(.plain), .call(.targeted), .call(.exchange)].map {
                .read(Machine.Reading(version: 1, isUnchecked: isUnchecked, isServable: false, next: $0))
            }
        }

    private static func name(_ state: Machine.State) -> String {
        switch state {
        case .reading: "reading"
        case .claiming: "claiming"
        case .calling: "calling"
        case .committing: "committing"
        case .keeping: "keeping"
        case .checking: "checking"
        case .condemning: "condemning"
        case .done: "done"
        }
    }

    /// Returns all moves from one state to another that the machine can make.
    ///
    /// An unexpected event ends the refresh. The moves to `done` by such events are included.
    private static func moves() -> Set<String> {
        var moves: Set<String> = []
        var open = [Machine()]
        for _ in 0..<8 {
            var next: [Machine] = []
            for machine in open {
                for event in events {
                    var moved = machine
                    _ = moved.handle(event)
                    moves.insert("\(name(machine.state)) --> \(name(moved.state))")
                    let isNew = !next.contains { $0.state == moved.state && $0.progress == moved.progress }
                    if moved.state != .done, isNew { next.append(moved) }
                }
            }
            open = next
        }
        return moves
    }

    @Test("The diagram on the page about the refresh → has exactly the states and transitions of the refresh machine")
    func diagram() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(contentsOf: root.appendingPathComponent("docs/internals/a-refresh.md"), encoding: .utf8)
        let drawn = Set(
            page.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
                .filter { $0.contains(" --> ") && !$0.contains("[*]") }
                .map { String($0.prefix { $0 != ":" }) })
        let moves = Self.moves()
        // Only an unexpected event moves the machine from `keeping` to `done`, so the page leaves this move out.
        let ends = Set(["keeping --> done"])
        #expect(drawn.subtracting(moves).isEmpty)
        #expect(moves.subtracting(drawn).subtracting(ends).isEmpty)
    }
}
