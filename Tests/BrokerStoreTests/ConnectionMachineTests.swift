import Testing

@testable import BrokerStore

@Suite("PostgreSQL: the life of a connection")
struct ConnectionMachineTests {
    typealias Event = ConnectionMachine.Event
    typealias Action = ConnectionMachine.Action

    /// An event at a time in milliseconds, and the expected effects.
    struct Step: Sendable {
        let at: Int
        let event: Event
        let actions: [Action]

        init(_ at: Int, _ event: Event, _ actions: [Action] = []) {
            self.at = at
            self.event = event
            self.actions = actions
        }
    }

    struct Scenario: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var limits = ConnectionMachine.Limits(depth: 4, refill: 1)
        let steps: [Step]
    }

    private static let up = [Step(0, .begin, [.connect]), Step(1, .connected, [.take(4)])]
    private static let conflict = ServerFault(state: "40001")
    private static let shutDown = ServerFault(state: "57P01")
    private static let readOnly = ServerFault(state: "25006")
    /// The error code that pgbouncer sends after it has lost or closed its connection to the server.
    private static let pooler = ServerFault(state: "08P01")

    static let scenarios: [Scenario] = [
        Scenario(
            testDescription: "operations are sent → each is answered at its own sync, in order",
            steps: up + [
                Step(2, .sent([1], isWrite: true)), Step(2, .sent([2], isWrite: false)),
                Step(2, .sent([3], isWrite: true)),
                Step(3, .completed), Step(3, .synced, [.answer(1, .done)]),
                Step(4, .failed(conflict)), Step(4, .synced, [.answer(2, .refused(conflict)), .take(3)]),
                Step(5, .completed), Step(5, .synced, [.answer(3, .done), .take(4)]),
            ]),
        Scenario(
            testDescription:
                "the connection is lost → a failed write and reads can be sent again, and another write is in doubt",
            steps: up + [
                Step(2, .sent([1], isWrite: true)), Step(2, .sent([2], isWrite: false)),
                Step(2, .sent([3], isWrite: true)),
                Step(3, .failed(conflict)),
                Step(
                    3, .lost,
                    [.answer(1, .notDone), .answer(2, .notDone), .answer(3, .inDoubt), .disconnect]),
                Step(52, .ticked), Step(53, .ticked, [.connect]),
            ]),
        Scenario(
            testDescription: "a write completes, and the server shuts down before the sync → the write is in doubt",
            steps: up + [
                Step(2, .sent([1], isWrite: true)), Step(3, .completed), Step(4, .failed(shutDown)),
                Step(4, .lost, [.answer(1, .inDoubt), .disconnect]),
            ]),
        Scenario(
            testDescription: "the server shuts down at the first of two writes → both writes can be sent again",
            steps: up + [
                Step(2, .sent([1], isWrite: true)), Step(2, .sent([2], isWrite: true)), Step(3, .failed(shutDown)),
                Step(3, .lost, [.answer(1, .notDone), .answer(2, .notDone), .disconnect]),
            ]),
        Scenario(
            testDescription:
                "a pooler ends the connection → writes are in doubt, because the server may have committed them",
            steps: up + [
                Step(2, .sent([1], isWrite: true)), Step(2, .sent([2], isWrite: true)),
                Step(2, .sent([3, 4], isWrite: false)), Step(3, .failed(pooler)),
                Step(
                    3, .lost,
                    [
                        .answer(1, .inDoubt), .answer(2, .inDoubt), .answer(3, .notDone), .answer(4, .notDone),
                        .disconnect,
                    ]),
            ]),
        Scenario(
            testDescription: "a pooler reports an error and then answers the sync → the write is in doubt",
            steps: up + [
                Step(2, .sent([1], isWrite: true)), Step(3, .failed(pooler)),
                Step(3, .synced, [.answer(1, .inDoubt), .disconnect, .connect]),
            ]),
        Scenario(
            testDescription:
                "a read-only server refuses a write, and the connection is lost → the next write is in doubt",
            steps: up + [
                Step(2, .sent([1], isWrite: true)), Step(2, .sent([2], isWrite: true)), Step(3, .failed(readOnly)),
                Step(3, .lost, [.answer(1, .notDone), .answer(2, .inDoubt), .disconnect]),
            ]),
        Scenario(
            testDescription: "the server is silent → six seconds after its last answer, the connection counts as lost",
            steps: up + [
                Step(1000, .sent([1], isWrite: true)), Step(1000, .sent([2], isWrite: true)), Step(5000, .completed),
                // Two statements are in progress, which is more than `refill`. So the connection takes no further statement
                // until one is done.
                Step(7100, .ticked), Step(10_999, .ticked),
                Step(11_000, .ticked, [.answer(1, .inDoubt), .answer(2, .inDoubt), .disconnect]),
            ]),
        Scenario(
            testDescription:
                "the server becomes read-only → a refused write is sent elsewhere, and the connection is replaced",
            steps: up + [
                Step(2, .sent([1], isWrite: true)), Step(2, .sent([2], isWrite: false)), Step(3, .failed(readOnly)),
                Step(3, .synced, [.answer(1, .notDone)]), Step(4, .ticked),
                Step(5, .completed), Step(5, .synced, [.answer(2, .done), .disconnect, .connect]),
                Step(6, .connected, [.take(4)]),
            ]),
        Scenario(
            testDescription:
                "the server warns that the standby may lack a commit → a write is in doubt, and a read is done",
            steps: up + [
                Step(2, .sent([1], isWrite: true)), Step(2, .sent([2], isWrite: false)),
                Step(3, .completed), Step(3, .warned), Step(3, .synced, [.answer(1, .inDoubt), .take(3)]),
                Step(4, .completed), Step(4, .warned), Step(4, .synced, [.answer(2, .done), .take(4)]),
            ]),
        Scenario(
            testDescription:
                "the server cannot be reached → pauses grow to two seconds, and are short again after an answer",
            steps: [
                Step(0, .begin, [.connect]), Step(0, .connectFailed), Step(49, .ticked), Step(50, .ticked, [.connect]),
                Step(50, .connectFailed), Step(149, .ticked), Step(150, .ticked, [.connect]),
                Step(150, .connectFailed), Step(350, .ticked, [.connect]), Step(350, .connectFailed),
                Step(750, .ticked, [.connect]), Step(750, .connectFailed), Step(1550, .ticked, [.connect]),
                Step(1550, .connectFailed), Step(3149, .ticked), Step(3150, .ticked, [.connect]),
                Step(3150, .connectFailed), Step(5149, .ticked), Step(5150, .ticked, [.connect]),
                Step(5150, .connected, [.take(4)]), Step(5151, .sent([1], isWrite: false)),
                Step(5152, .synced, [.answer(1, .done), .take(4)]), Step(5153, .lost, [.disconnect]),
                Step(5202, .ticked), Step(5203, .ticked, [.connect]),
            ]),
        Scenario(
            testDescription: "the server warns during reads that share a sync → all these reads are done",
            steps: up + [
                Step(2, .sent([1, 2, 3], isWrite: false)), Step(3, .completed), Step(3, .completed), Step(3, .warned),
                Step(3, .completed),
                Step(3, .synced, [.answer(1, .done), .answer(2, .done), .answer(3, .done), .take(4)]),
            ]),
        Scenario(
            testDescription:
                "one of the reads that share a sync fails → the reads before it are done, and those behind it are sent again",
            steps: up + [
                Step(2, .sent([1, 2, 3], isWrite: false)), Step(2, .sent([4], isWrite: true)), Step(3, .completed),
                Step(3, .failed(conflict)),
                Step(3, .synced, [.answer(1, .done), .answer(2, .refused(conflict)), .answer(3, .notDone), .take(3)]),
                Step(4, .completed), Step(4, .synced, [.answer(4, .done), .take(4)]),
            ]),
        Scenario(
            testDescription: "all reads that share a sync are complete, and the sync fails → the reads are done",
            steps: up + [
                Step(2, .sent([1, 2], isWrite: false)), Step(3, .completed), Step(3, .completed),
                Step(3, .failed(conflict)),
                Step(3, .synced, [.answer(1, .done), .answer(2, .done), .take(4)]),
            ]),
        Scenario(
            testDescription:
                "the server shuts down during reads that share a sync → complete reads are done, and the others are sent again",
            steps: up + [
                Step(2, .sent([1, 2], isWrite: false)), Step(3, .completed), Step(3, .failed(shutDown)),
                Step(3, .synced, [.answer(1, .done), .answer(2, .notDone), .disconnect, .connect]),
            ]),
        Scenario(
            testDescription:
                "the connection is lost → reads that share a sync are sent again, and the write behind them is in doubt",
            steps: up + [
                Step(2, .sent([1, 2], isWrite: false)), Step(2, .sent([3], isWrite: true)), Step(3, .completed),
                Step(
                    3, .lost, [.answer(1, .notDone), .answer(2, .notDone), .answer(3, .inDoubt), .disconnect]),
            ]),
        Scenario(
            testDescription: "a write's statement succeeds, and its commit fails → the write is refused",
            steps: up + [
                Step(2, .sent([1], isWrite: true)), Step(3, .completed), Step(3, .failed(conflict)),
                Step(3, .synced, [.answer(1, .refused(conflict)), .take(4)]),
            ]),
        Scenario(
            testDescription:
                "the connection closes during a write → it waits for the write, and takes no other operation",
            steps: up + [
                Step(2, .sent([1], isWrite: true)), Step(3, .close), Step(3, .ticked), Step(4, .completed),
                Step(4, .synced, [.answer(1, .done), .disconnect, .finish]), Step(5, .ticked),
            ]),
        Scenario(
            testDescription: "the connection closes while it connects → as soon as it is connected, it disconnects",
            steps: [Step(0, .begin, [.connect]), Step(1, .close), Step(2, .connected, [.disconnect, .finish])]),
        Scenario(
            testDescription: "the connection closes during a pause → it ends at once",
            steps: [Step(0, .begin, [.connect]), Step(1, .connectFailed), Step(2, .close, [.finish])]),
        Scenario(
            testDescription: "the connection closes while it connects, and connecting fails → it ends",
            steps: [Step(0, .begin, [.connect]), Step(1, .close), Step(2, .connectFailed, [.finish])]),
        Scenario(
            testDescription:
                "an event does not fit the connection's state → the connection is lost, or nothing happens",
            steps: up + [
                Step(2, .synced, [.disconnect]), Step(2, .synced), Step(2, .completed), Step(2, .lost), Step(2, .begin),
                Step(2, .connected), Step(2, .connectFailed),
                Step(2, .sent([7], isWrite: true), [.answer(7, .notDone)]),
            ]),
    ]

    @Test(
        "A connection gets the events of a listed scenario → it takes the scenario's actions, in order",
        arguments: scenarios)
    func scenario(_ scenario: Scenario) {
        var machine = ConnectionMachine(scenario.limits)
        for (index, step) in scenario.steps.enumerated() {
            let actions = machine.handle(step.event, at: .milliseconds(step.at))
            #expect(actions == step.actions, "step \(index): \(step.event) at \(step.at) ms")
        }
    }

    @Test("PostgreSQL reports an error code → the store reads it as repeat, reconnect, duplicate or refused")
    func faults() {
        for (state, kind) in [
            ("40001", ServerFault.Kind.repeat), ("40P01", .repeat), ("08006", .reconnect), ("08P01", .reconnect),
            ("57P01", .reconnect), ("57P02", .reconnect), ("57P03", .reconnect), ("25006", .reconnect),
            ("23505", .duplicate), ("53100", .refused), ("57014", .refused), ("55P03", .refused), ("", .refused),
        ] {
            #expect(ServerFault(state: state).kind == kind, "\(state)")
        }
    }
}
