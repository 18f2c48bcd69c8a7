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
        Row(
            name: "a call begins → the connection waits for the answer's head", before: [], event: get,
            effects: .reschedule, phase: .waiting),
        Row(
            name: "a call with a streamed body begins → the connection sends the request", before: [], event: post,
            effects: .reschedule, phase: .sending
        ),
        Row(
            name: "a call begins during another call → it is not accepted", before: [get], event: get, effects: [],
            phase: .waiting),
        Row(
            name: "a streamed request ends → the connection waits for the answer's head", before: [post, .requestPart],
            event: .requestEnd,
            effects: .reschedule, phase: .waiting),
        Row(
            name: "an answer's head arrives → the reader gets it", before: [get], event: ok,
            effects: [.deliver, .reschedule], phase: .receiving),
        Row(
            name: "a piece of an answer's body arrives → the reader gets it", before: [get, ok], event: .body,
            effects: .deliver, phase: .receiving),
        Row(
            name: "an answer ends → the call is finished, and the connection waits for its reader", before: [get, ok],
            event: .end, effects: .finish, phase: .draining),
        Row(
            name: "all input is decoded, and the answer is not read to its end → the connection is not released",
            before: [get, ok, .end], event: .readComplete,
            effects: [], phase: .draining),
        Row(
            name: "the answer is read to its end, and input may be undecoded → the connection is not released",
            before: [get, ok, .end], event: .taken, effects: [],
            phase: .draining),
        Row(
            name: "all input is decoded, and then the answer is read to its end → the connection is released",
            before: [get, ok, .end, .readComplete],
            event: .taken, effects: [.release, .reschedule], phase: .idle),
        Row(
            name: "the answer is read to its end, and then all input is decoded → the connection is released",
            before: [get, ok, .end, .taken], event: .readComplete,
            effects: [.release, .reschedule], phase: .idle),
        Row(
            name: "a call begins on a released connection → it is accepted", before: whole, event: post,
            effects: .reschedule, phase: .sending),
        // Interim answers.
        Row(
            name: "100 Continue arrives → it does not count as the answer", before: [post, .bytes],
            event: .head(status: 100, keepsAlive: true),
            effects: [], phase: .sending),
        Row(
            name: "64 interim answers arrive, and then an answer → the reader gets the answer",
            before: [get] + Array(repeating: .head(status: 103, keepsAlive: true), count: 64), event: ok,
            effects: [.deliver, .reschedule], phase: .receiving),
        Row(
            name: "a 65th interim answer arrives → the call fails",
            before: [get] + Array(repeating: .head(status: 103, keepsAlive: true), count: 64),
            event: .head(status: 103, keepsAlive: true), effects: [.fail, .close], phase: .closed, failure: .malformed),
        Row(
            name: "an answer with status 101 ends → the connection ends, and the upstream may close it first",
            before: [get, .head(status: 101, keepsAlive: true)],
            event: .end, effects: [.finish, .linger, .reschedule], phase: .ending),
        // The connection ends after the answer. The client waits for a moment before it closes, so that the upstream closes
        // first.
        Row(
            name: "an answer with Connection: close ends → the connection ends, and the upstream may close it first",
            before: [get, closing], event: .end, effects: [.finish, .linger, .reschedule],
            phase: .ending),
        Row(
            name:
                "the answer to a connection's last call ends → the connection ends, and the upstream may close it first",
            before: [last, ok], event: .end, effects: [.finish, .linger, .reschedule],
            phase: .ending),
        Row(
            name: "a body that lasts until the upstream closes is complete → the connection ends",
            before: [get, closing, .body], event: .end,
            effects: [.finish, .linger, .reschedule], phase: .ending),
        Row(
            name: "the upstream closes after the last call → the connection is reset", before: [last, ok, .end],
            event: .gone, effects: .reset, phase: .closed),
        Row(
            name: "bytes follow the last answer, such as a body after HEAD → the connection is reset",
            before: [last, ok, .end], event: .bytes, effects: .reset,
            phase: .closed),
        Row(
            name: "a call begins after the connection's last call → it is not accepted", before: [last, ok, .end],
            event: get, effects: [], phase: .ending),
        Row(
            name: "the caller abandons the connection's last call after the answer → no effect",
            before: [last, ok, .end, .taken, .readComplete],
            event: .abandoned, effects: [], phase: .ending),
        Row(
            name: "a 404 ends, and the upstream may have left the request's body unread → the connection is reset",
            before: [put, .head(status: 404, keepsAlive: true)],
            event: .end, effects: [.finish, .reset], phase: .closed),
        Row(
            name: "a 422 to a request with a body ends → the connection is kept",
            before: [put, .head(status: 422, keepsAlive: true)],
            event: .end, effects: .finish, phase: .draining),
        Row(
            name: "a 404 to a request without a body ends → the connection is kept",
            before: [get, .head(status: 404, keepsAlive: true)],
            event: .end, effects: .finish, phase: .draining),
        Row(
            name: "the connection breaks within an answer with Connection: close → the call fails",
            before: [get, closing, .body], event: .gone, effects: [.fail, .close],
            phase: .closed, failure: .broken),
        // The upstream sends bytes that belong to no call.
        Row(
            name: "bytes arrive before the first call → the connection closes", before: [], event: .bytes,
            effects: .close, phase: .closed),
        Row(
            name: "bytes arrive between two calls → the connection closes", before: whole, event: .bytes,
            effects: .close, phase: .closed),
        Row(
            name: "bytes arrive behind a complete answer → the connection closes", before: [get, ok, .end],
            event: .bytes, effects: .close, phase: .closed),
        Row(
            name: "malformed input arrives behind a complete answer → the connection closes", before: [get, ok, .end],
            event: .malformed, effects: .close,
            phase: .closed),
        Row(
            name: "a head arrives behind a complete answer → the connection closes", before: [get, ok, .end], event: ok,
            effects: .close, phase: .closed),
        Row(
            name: "a second head arrives within an answer → the call fails", before: [get, ok], event: ok,
            effects: [.fail, .close], phase: .closed,
            failure: .malformed),
        Row(
            name: "bytes arrive behind a complete early answer → the answer counts, and sending stops",
            before: [post, ok, .end], event: .bytes,
            effects: [.finish, .stopSending, .close], phase: .closed),
        Row(
            name: "the input is not an HTTP answer → the call fails", before: [get, .bytes], event: .malformed,
            effects: [.fail, .close],
            phase: .closed, failure: .malformed),
        // Early answers.
        Row(
            name: "an answer's head arrives before the request's end → the reader gets it, and sending goes on",
            before: [post], event: ok,
            effects: [.deliver, .reschedule], phase: .receiving),
        Row(
            name: "the request ends after the answer's head → the answer is still received", before: [post, ok],
            event: .requestEnd,
            effects: .reschedule, phase: .receiving),
        Row(
            name: "an early answer ends → the call waits for the request's end", before: [post, ok], event: .end,
            effects: .reschedule, phase: .draining),
        Row(
            name: "the request ends after a complete early answer → the call is finished",
            before: [post, ok, .end, .readComplete], event: .requestEnd, effects: .finish,
            phase: .draining),
        Row(
            name: "a complete early answer is read after the request's end → the connection is released",
            before: [post, ok, .end, .readComplete, .requestEnd],
            event: .taken, effects: [.release, .reschedule], phase: .idle),
        Row(
            name: "the upstream closes after a complete early answer → the answer counts, and sending stops",
            before: [post, ok, .end, .readComplete],
            event: .gone, effects: [.finish, .stopSending, .close], phase: .closed),
        Row(
            name: "the request breaks off after a complete early answer → the answer counts, and sending stops",
            before: [post, ok, .end, .readComplete],
            event: .requestCut, effects: [.finish, .stopSending, .close], phase: .closed),
        Row(
            name: "a 413 is complete before the request's end → sending stops", before: [post, refusal], event: .end,
            effects: [.finish, .stopSending, .close], phase: .closed),
        Row(
            name: "an early answer with Connection: close is complete → sending stops", before: [post, closing],
            event: .end,
            effects: [.finish, .stopSending, .close], phase: .closed),
        Row(
            name: "the upstream closes within an early answer → the call fails", before: [post, ok, .body],
            event: .gone,
            effects: [.fail, .stopSending, .close], phase: .closed, failure: .broken),
        Row(
            name: "the request breaks off before the answer's head → the call fails", before: [post, .requestPart],
            event: .requestCut,
            effects: [.fail, .stopSending, .close], phase: .closed, failure: .requestCut),
        Row(
            name: "the request breaks off after the answer's head → the call fails", before: [post, ok],
            event: .requestCut,
            effects: [.fail, .stopSending, .close], phase: .closed, failure: .requestCut),
        Row(
            name: "the request's source breaks off after the request's end → no effect", before: [post, .requestEnd],
            event: .requestCut, effects: [],
            phase: .waiting),
        // The connection closes.
        Row(
            name: "the upstream closes an idle connection → the connection is closed", before: whole, event: .gone,
            effects: .close, phase: .closed),
        Row(
            name: "the upstream closes a new connection before the answer's first byte → the call counts as broken",
            before: [get], event: .gone, effects: [.fail, .close], phase: .closed,
            failure: .broken),
        Row(
            name: "the upstream closes a kept connection before the answer's first byte → the call counts as lost",
            before: whole + [get], event: .gone, effects: [.fail, .close],
            phase: .closed, failure: .lost),
        Row(
            name: "the upstream closes a kept connection after the answer's first byte → the call counts as broken",
            before: whole + [get, .bytes], event: .gone, effects: [.fail, .close],
            phase: .closed, failure: .broken),
        Row(
            name: "the upstream closes within the request → the call counts as broken, and sending stops",
            before: [post], event: .gone, effects: [.fail, .stopSending, .close],
            phase: .closed, failure: .broken),
        Row(
            name: "the upstream closes behind a complete answer that is not read yet → the call does not fail",
            before: [get, ok, .end, .readComplete], event: .gone,
            effects: .close, phase: .closed),
        // The caller leaves.
        Row(
            name: "the caller leaves before the answer's head → the call fails, and the connection closes",
            before: [get], event: .abandoned, effects: [.fail, .close], phase: .closed,
            failure: .abandoned),
        Row(
            name: "the caller leaves within the request → the call fails, sending stops, and the connection closes",
            before: [post], event: .abandoned, effects: [.fail, .stopSending, .close],
            phase: .closed, failure: .abandoned),
        Row(
            name: "the caller leaves within the answer's body → the call fails, and the connection closes",
            before: [get, ok, .body], event: .abandoned, effects: [.fail, .close],
            phase: .closed, failure: .abandoned),
        Row(
            name: "the caller leaves before it has read a complete answer → the connection closes",
            before: [get, ok, .end, .readComplete], event: .abandoned,
            effects: .close, phase: .closed),
        Row(
            name: "the caller leaves after its call is over → no effect", before: whole, event: .abandoned, effects: [],
            phase: .idle),
        // Back-pressure.
        Row(
            name: "the reader has enough for now → no input is read", before: [get, ok, .body], event: .wanted(false),
            effects: .reschedule, phase: .receiving, takesInput: false),
        Row(
            name: "the reader wants more again → input is read", before: [get, ok, .body, .wanted(false)],
            event: .wanted(true),
            effects: .reschedule, phase: .receiving),
        Row(
            name: "one answer's reader had enough, and the next call begins → input is read",
            before: [get, ok, .wanted(false), .end, .readComplete, .taken],
            event: get, effects: .reschedule, phase: .waiting),
        Row(
            name: "a call begins on a closed connection → no effect", before: [.gone], event: get, effects: [],
            phase: .closed),
    ]

    private static func machine(after events: [UpstreamConnection.Event]) -> UpstreamConnection {
        var machine = UpstreamConnection(idle: idle, silence: silence, linger: linger, now: 0)
        for event in events { _ = machine.handle(event, at: 0) }
        return machine
    }

    @Test(
        "An upstream's connection gets the events of a row in this test's table → the effects and the phase of this row",
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
