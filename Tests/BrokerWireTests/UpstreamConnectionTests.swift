import Testing

@testable import BrokerWire

/// The state machine of a connection to an upstream as a table: the events before, an event, and the expected effects.
@Suite("The life of a connection to an upstream (SEC-79)", .timeLimit(.minutes(1)))
struct UpstreamConnectionTests {
    private typealias Effects = UpstreamConnection.Effects

    private static let idle: Int64 = 30
    private static let silence: Int64 = 60
    private static let limit: Int64 = 10
    private static let linger: Int64 = 3

    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        let before: [UpstreamConnection.Event]
        let event: UpstreamConnection.Event
        let effects: UpstreamConnection.Effects
        let phase: UpstreamConnection.Phase
        var failure: UpstreamConnection.Failure?
        var takesInput = true
        var testDescription: String { name }
    }

    private typealias Event = UpstreamConnection.Event
    private static let get = Event.call(.init(limit: limit, begun: 0))
    private static let last = Event.call(.init(isLast: true, limit: limit, begun: 0))
    private static let put = Event.call(.init(hasBody: true, limit: limit, begun: 0))
    private static let post = Event.call(.init(isStreamed: true, limit: limit, begun: 0))
    private static let ok = Event.head(status: 200, keepsAlive: true)
    private static let closing = Event.head(status: 200, keepsAlive: false)
    private static let refusal = Event.head(status: 413, keepsAlive: true)
    private static let whole: [Event] = [get, .bytes, ok, .body, .end, .readComplete, .taken]

    static let table: [Row] = [
        // A regular call.
        Row(name: "a call begins", before: [], event: get, effects: .reschedule, phase: .waiting),
        Row(
            name: "a streamed call begins with its head", before: [], event: post, effects: .reschedule, phase: .sending
        ),
        Row(name: "a second call is not taken", before: [get], event: get, effects: [], phase: .waiting),
        Row(
            name: "a request ends, and the head is awaited", before: [post, .requestPart], event: .requestEnd,
            effects: .reschedule, phase: .waiting),
        Row(
            name: "a head is handed on", before: [get], event: ok, effects: [.deliver, .reschedule], phase: .receiving),
        Row(name: "a piece is handed on", before: [get, ok], event: .body, effects: .deliver, phase: .receiving),
        Row(name: "an answer ends", before: [get, ok], event: .end, effects: .finish, phase: .draining),
        Row(
            name: "an answer that is not read keeps its connection", before: [get, ok, .end], event: .readComplete,
            effects: [], phase: .draining),
        Row(
            name: "so does one behind which more may come", before: [get, ok, .end], event: .taken, effects: [],
            phase: .draining),
        Row(
            name: "read, with nothing behind it, it lets the connection go", before: [get, ok, .end, .readComplete],
            event: .taken, effects: [.release, .reschedule], phase: .idle),
        Row(
            name: "in whichever order", before: [get, ok, .end, .taken], event: .readComplete,
            effects: [.release, .reschedule], phase: .idle),
        Row(name: "the next call begins", before: whole, event: post, effects: .reschedule, phase: .sending),
        // Interim answers.
        Row(
            name: "100 Continue is no answer", before: [post, .bytes], event: .head(status: 100, keepsAlive: true),
            effects: [], phase: .sending),
        Row(
            name: "the answer behind interim ones is",
            before: [get] + Array(repeating: .head(status: 103, keepsAlive: true), count: 64), event: ok,
            effects: [.deliver, .reschedule], phase: .receiving),
        Row(
            name: "a flood of interim answers fails",
            before: [get] + Array(repeating: .head(status: 103, keepsAlive: true), count: 64),
            event: .head(status: 103, keepsAlive: true), effects: [.fail, .close], phase: .closed, failure: .malformed),
        Row(
            name: "a switch of protocols is the connection's end", before: [get, .head(status: 101, keepsAlive: true)],
            event: .end, effects: [.finish, .linger, .reschedule], phase: .ending),
        // The connection ends after the answer. The client waits for a moment before it closes, so that the upstream closes
        // first.
        Row(
            name: "Connection: close", before: [get, closing], event: .end, effects: [.finish, .linger, .reschedule],
            phase: .ending),
        Row(
            name: "the last call", before: [last, ok], event: .end, effects: [.finish, .linger, .reschedule],
            phase: .ending),
        Row(
            name: "a body that is read until the end of the connection", before: [get, closing, .body], event: .end,
            effects: [.finish, .linger, .reschedule], phase: .ending),
        Row(name: "the upstream closes", before: [last, ok, .end], event: .gone, effects: .reset, phase: .closed),
        Row(
            name: "it sends the body that HEAD has not", before: [last, ok, .end], event: .bytes, effects: .reset,
            phase: .closed),
        Row(name: "no other call begins meanwhile", before: [last, ok, .end], event: get, effects: [], phase: .ending),
        Row(
            name: "what the call before still says is nothing", before: [last, ok, .end, .taken, .readComplete],
            event: .abandoned, effects: [], phase: .ending),
        Row(
            name: "a refusal that may leave the body unread", before: [put, .head(status: 404, keepsAlive: true)],
            event: .end, effects: [.finish, .reset], phase: .closed),
        Row(
            name: "another refusal of a body keeps its connection",
            before: [put, .head(status: 422, keepsAlive: true)],
            event: .end, effects: .finish, phase: .draining),
        Row(
            name: "so does the same refusal without a body", before: [get, .head(status: 404, keepsAlive: true)],
            event: .end, effects: .finish, phase: .draining),
        Row(
            name: "the same, broken off", before: [get, closing, .body], event: .gone, effects: [.fail, .close],
            phase: .closed, failure: .broken),
        // The upstream sends bytes that belong to no call.
        Row(name: "bytes without a call", before: [], event: .bytes, effects: .close, phase: .closed),
        Row(name: "bytes between calls", before: whole, event: .bytes, effects: .close, phase: .closed),
        Row(
            name: "bytes behind an answer", before: [get, ok, .end], event: .bytes, effects: .close, phase: .closed),
        Row(
            name: "something else behind an answer", before: [get, ok, .end], event: .malformed, effects: .close,
            phase: .closed),
        Row(
            name: "a head behind an answer", before: [get, ok, .end], event: ok, effects: .close, phase: .closed),
        Row(
            name: "a second head", before: [get, ok], event: ok, effects: [.fail, .close], phase: .closed,
            failure: .malformed),
        Row(
            name: "bytes behind an early answer leave it whole", before: [post, ok, .end], event: .bytes,
            effects: [.finish, .stopSending, .close], phase: .closed),
        Row(
            name: "an answer that is no answer", before: [get, .bytes], event: .malformed, effects: [.fail, .close],
            phase: .closed, failure: .malformed),
        // Early answers.
        Row(
            name: "an early head is handed on, and sending goes on", before: [post], event: ok,
            effects: [.deliver, .reschedule], phase: .receiving),
        Row(
            name: "the request's end behind an early head", before: [post, ok], event: .requestEnd,
            effects: .reschedule, phase: .receiving),
        Row(
            name: "an early answer's end waits for the request's", before: [post, ok], event: .end,
            effects: .reschedule, phase: .draining),
        Row(
            name: "and is told with it", before: [post, ok, .end, .readComplete], event: .requestEnd, effects: .finish,
            phase: .draining),
        Row(
            name: "after which the connection serves others", before: [post, ok, .end, .readComplete, .requestEnd],
            event: .taken, effects: [.release, .reschedule], phase: .idle),
        Row(
            name: "an early answer whose upstream hangs up is whole", before: [post, ok, .end, .readComplete],
            event: .gone, effects: [.finish, .stopSending, .close], phase: .closed),
        Row(
            name: "an early answer whose request breaks off is whole", before: [post, ok, .end, .readComplete],
            event: .requestCut, effects: [.finish, .stopSending, .close], phase: .closed),
        Row(
            name: "an early refusal ends the sending", before: [post, refusal], event: .end,
            effects: [.finish, .stopSending, .close], phase: .closed),
        Row(
            name: "an early answer that closes ends the sending", before: [post, closing], event: .end,
            effects: [.finish, .stopSending, .close], phase: .closed),
        Row(
            name: "an early answer that breaks off fails", before: [post, ok, .body], event: .gone,
            effects: [.fail, .stopSending, .close], phase: .closed, failure: .broken),
        Row(
            name: "a request that breaks off fails", before: [post, .requestPart], event: .requestCut,
            effects: [.fail, .stopSending, .close], phase: .closed, failure: .requestCut),
        Row(
            name: "so it does under an answer", before: [post, ok], event: .requestCut,
            effects: [.fail, .stopSending, .close], phase: .closed, failure: .requestCut),
        Row(
            name: "what broke off after its end did not", before: [post, .requestEnd], event: .requestCut, effects: [],
            phase: .waiting),
        // The connection closes.
        Row(name: "idle", before: whole, event: .gone, effects: .close, phase: .closed),
        Row(
            name: "a new one, before a byte", before: [get], event: .gone, effects: [.fail, .close], phase: .closed,
            failure: .broken),
        Row(
            name: "a kept one, before a byte", before: whole + [get], event: .gone, effects: [.fail, .close],
            phase: .closed, failure: .lost),
        Row(
            name: "a kept one, after a byte", before: whole + [get, .bytes], event: .gone, effects: [.fail, .close],
            phase: .closed, failure: .broken),
        Row(
            name: "within the request", before: [post], event: .gone, effects: [.fail, .stopSending, .close],
            phase: .closed, failure: .broken),
        Row(
            name: "behind a whole answer that is not read yet", before: [get, ok, .end, .readComplete], event: .gone,
            effects: .close, phase: .closed),
        // The caller leaves.
        Row(
            name: "before the head", before: [get], event: .abandoned, effects: [.fail, .close], phase: .closed,
            failure: .abandoned),
        Row(
            name: "within the request", before: [post], event: .abandoned, effects: [.fail, .stopSending, .close],
            phase: .closed, failure: .abandoned),
        Row(
            name: "within the body", before: [get, ok, .body], event: .abandoned, effects: [.fail, .close],
            phase: .closed, failure: .abandoned),
        Row(
            name: "without having read a whole answer", before: [get, ok, .end, .readComplete], event: .abandoned,
            effects: .close, phase: .closed),
        Row(name: "after everything", before: whole, event: .abandoned, effects: [], phase: .idle),
        // Back-pressure.
        Row(
            name: "a reader that stops holds the upstream up", before: [get, ok, .body], event: .wanted(false),
            effects: .reschedule, phase: .receiving, takesInput: false),
        Row(
            name: "and lets it go on", before: [get, ok, .body, .wanted(false)], event: .wanted(true),
            effects: .reschedule, phase: .receiving),
        Row(
            name: "the next call's reader is another", before: [get, ok, .wanted(false), .end, .readComplete, .taken],
            event: get, effects: .reschedule, phase: .waiting),
        Row(name: "nothing happens to what is closed", before: [.gone], event: get, effects: [], phase: .closed),
    ]

    private static func machine(after events: [UpstreamConnection.Event]) -> UpstreamConnection {
        var machine = UpstreamConnection(idle: idle, silence: silence, linger: linger, now: 0)
        for event in events { _ = machine.handle(event, at: 0) }
        return machine
    }

    @Test(
        "An upstream's connection is in a state of this test's table, and an event comes → the expected effects and phase",
        arguments: table)
    func row(_ row: Row) {
        var machine = Self.machine(after: row.before)
        #expect(machine.handle(row.event, at: 1) == row.effects)
        #expect(machine.phase == row.phase)
        #expect(machine.takesInput == row.takesInput)
        if let failure = row.failure { #expect(machine.failure == failure) }
        #expect(machine.phase != .closed || !machine.isSending)
    }

    @Test(
        "A connection waits for bytes of an upstream → it has a deadline; it waits for the broker's caller → it has no deadline",
        arguments: [
            ([], idle, .close), ([get], limit, [.fail, .close]), ([post], nil, []),
            ([post, .writable(false)], limit, [.fail, .stopSending, .close]),
            ([post, .writable(false), .writable(true)], nil, []), ([post, .requestEnd], limit, [.fail, .close]),
            ([get, ok], silence, [.fail, .close]), ([get, ok, .wanted(false)], nil, []),
            ([get, ok, .wanted(false), .wanted(true)], silence, [.fail, .close]), ([post, ok], nil, []),
            ([post, ok, .writable(false)], silence, [.fail, .stopSending, .close]),
            ([post, ok, .end], silence, [.finish, .stopSending, .close]), ([get, ok, .end], silence, .close),
            (whole, idle, .close), ([.gone], nil, []), ([last, ok, .end], linger, .reset),
        ] as [([UpstreamConnection.Event], Int64?, UpstreamConnection.Effects)])
    func deadline(before: [UpstreamConnection.Event], due: Int64?, effects: UpstreamConnection.Effects) {
        var machine = Self.machine(after: before)
        #expect(machine.deadline == due)
        guard let due else {
            #expect(machine.checkDeadlines(at: .max) == [])
            return
        }
        #expect(machine.checkDeadlines(at: due - 1) == [])
        #expect(machine.checkDeadlines(at: due) == effects)
        #expect(machine.phase == .closed)
    }

    @Test(
        "The broker sends a piece, or gets a byte of an upstream's body → the deadline moves; a byte of a head → no change"
    )
    func progress() {
        var machine = Self.machine(after: [Self.post, .writable(false)])
        _ = machine.handle(.writable(true), at: 5)
        _ = machine.handle(.writable(false), at: 7)
        #expect(machine.deadline == 7 + Self.limit)
        _ = machine.handle(.requestEnd, at: 8)
        _ = machine.handle(.bytes, at: 9)
        #expect(machine.deadline == 8 + Self.limit)
        _ = machine.handle(Self.ok, at: 10)
        _ = machine.handle(.bytes, at: 11)
        #expect(machine.deadline == 11 + Self.silence)
    }

    @Test(
        "An upstream's connection gets events in any order → each call ends once, and the next call begins after this end"
    )
    func anyOrder() {
        let events: [UpstreamConnection.Event] = [
            Self.get, Self.last, Self.post, .requestPart, .requestEnd, .requestCut, .writable(false), .writable(true),
            .bytes, Self.ok, Self.closing, Self.refusal, Self.put, .head(status: 100, keepsAlive: true), .body, .end,
            .readComplete, .malformed, .wanted(false), .wanted(true), .taken, .abandoned, .gone,
        ]
        // Events that end the connection are chosen seldom, so that most connections reach a late state.
        let seldom: Set = [5, 17, 21, 22]
        var random = SystemRandomNumberGenerator()
        for _ in 0..<2000 {
            var machine = UpstreamConnection(
                idle: Self.idle, silence: Self.silence, linger: Self.linger, now: 0)
            var isCalled = false
            var ends = 0
            for step in 0..<40 {
                let index = Int.random(in: events.indices, using: &random)
                if seldom.contains(index), Int.random(in: 0..<8, using: &random) > 0 { continue }
                let before = machine.phase
                let effects = machine.handle(events[index], at: Int64(step))
                if before == .idle, machine.phase == .sending || machine.phase == .waiting {
                    (isCalled, ends) = (true, 0)
                }
                ends += (effects.contains(.finish) ? 1 : 0) + (effects.contains(.fail) ? 1 : 0)
                #expect(ends <= 1)
                #expect(!effects.contains(.release) || (isCalled && ends == 1 && machine.phase == .idle))
                let isClosing = effects.contains(.close) || effects.contains(.reset)
                #expect(isClosing == (machine.phase == .closed && before != .closed))
                if isClosing, isCalled, before != .idle { #expect(ends == 1) }
                if effects.contains(.deliver) { #expect(ends == 0) }
                if machine.phase == .closed { break }
            }
        }
    }
}
