import Testing

@testable import BrokerWire

/// The state machine of a connection as a table: the events before, an event, and the expected effects.
@Suite("The life of a listener's connection", .timeLimit(.minutes(1)))
struct ServerConnectionTests {
    private typealias Event = ServerConnection.Event
    private typealias Effects = ServerConnection.Effects

    private static let second: Int64 = 1_000_000_000

    private static func machine() -> ServerConnection {
        ServerConnection(limits: ConnectionTimes(ConnectionLimits()), now: 0)
    }

    private static func head(
        _ configure: (inout ServerConnection.Head) -> Void = { _ in }
    ) -> Event {
        var head = ServerConnection.Head()
        configure(&head)
        return .head(head)
    }

    private static let get = [head(), .end]
    private static let post = head {
        $0.hasBody = true
        $0.isSafe = false
    }
    private static let wholePost = head {
        ($0.hasBody, $0.isBodyHere, $0.isSafe, $0.expectsContinue) = (true, true, false, true)
    }
    private static let answer = Event.answer(closes: false, more: false)
    private static let ended = Event.answerEnded(more: false)

    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        let before: [ServerConnection.Event]
        let event: ServerConnection.Event
        let effects: ServerConnection.Effects
        let phase: ServerConnection.Phase
        var takesInput: Bool?
        var testDescription: String { name }
    }

    static let table: [Row] = [
        Row(
            name: "a request's head arrives → the broker waits for the end of the request", before: [], event: head(),
            effects: [], phase: .open),
        Row(
            name: "a request without a body is complete → it is served", before: [head()], event: .end, effects: .serve,
            phase: .open,
            takesInput: false),
        Row(
            name: "the head of a request with a body arrives → the request is served, and its body is read", before: [],
            event: post, effects: .serve, phase: .open,
            takesInput: true),
        Row(
            name: "a piece of a request's body arrives → the service gets the piece", before: [post], event: .body,
            effects: .deliver, phase: .open),
        Row(
            name: "a request's body ends → the service gets the end, and no further input is read",
            before: [post, .body], event: .end, effects: .endBody, phase: .open, takesInput: false),
        Row(
            name: "a request's body came together with its head → the request is served only at the body's end",
            before: [], event: wholePost, effects: [],
            phase: .open, takesInput: true),
        Row(
            name: "a body that came with its head is decoded → it is kept, and no 100 Continue is sent",
            before: [wholePost], event: .body,
            effects: .deliver, phase: .open, takesInput: true),
        Row(
            name: "a body that came with its head ends → the request is served", before: [wholePost, .body],
            event: .end, effects: .serve,
            phase: .open, takesInput: false),
        Row(
            name:
                "a request whose body came with its head is answered → the next request is taken, even if the body is unread",
            before: [wholePost, .body, .end, answer], event: ended, effects: .next, phase: .open, takesInput: true),
        Row(
            name:
                "a FIN arrives before the end of a body that came with its head → the connection closes without an answer",
            before: [wholePost, .body],
            event: .inputClosed(more: false), effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "a second head arrives while a request is served → it is not accepted", before: get, event: head(),
            effects: [],
            phase: .open),
        Row(
            name: "an answer ends → the next request is taken", before: get + [answer], event: ended, effects: .next,
            phase: .open, takesInput: true),
        Row(
            name: "an answer ends, and bytes of it are unsent → no input is taken",
            before: get + [answer, .writable(false)],
            event: ended, effects: .next, phase: .open, takesInput: false),
        Row(
            name: "the unsent bytes of an answer are sent → the next request is taken",
            before: get + [answer, .writable(false), ended],
            event: .writable(true), effects: .next, phase: .open, takesInput: true),
        Row(
            name:
                "an answer that closes the connection ends → the output is closed, even if more requests have arrived",
            before: get + [.answer(closes: true, more: true)],
            event: .answerEnded(more: true), effects: [.closeOutput, .reschedule], phase: .closing, takesInput: false),
        Row(
            name:
                "the answer to a request with Connection: close ends → the output is closed, even if more requests have arrived",
            before: [head { $0.closes = true }, .end, answer],
            event: .answerEnded(more: true), effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "a head arrives after the last answer → it is not served",
            before: [head { $0.closes = true }, .end, answer, ended],
            event: head(), effects: [], phase: .closing),
        Row(
            name: "an answer ends before the request's body → the body fails, and the connection closes",
            before: [post, answer], event: ended,
            effects: [.closeOutput, .reschedule, .failBody], phase: .closing),
        Row(
            name: "the output is closed after the last answer → the connection lingers",
            before: [head { $0.closes = true }, .end, answer, ended], event: .outputClosed, effects: .reschedule,
            phase: .lingering),
        Row(
            name: "a FIN arrives while the connection lingers → the connection closes",
            before: [head { $0.closes = true }, .end, answer, ended, .outputClosed],
            event: .inputClosed(more: false), effects: .close, phase: .closed),
        Row(
            name: "the output is closed after the client's FIN → the connection closes without lingering",
            before: get + [.inputClosed(more: false), answer, ended],
            event: .outputClosed,
            effects: .close, phase: .closed),
        Row(
            name: "a FIN arrives between two requests → the connection closes", before: [],
            event: .inputClosed(more: false),
            effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "a FIN arrives behind a complete request → the request is still answered", before: get,
            event: .inputClosed(more: false),
            effects: [.halfClosed, .reschedule], phase: .open),
        Row(
            name: "a FIN arrives within a request's body → the body fails, and this request is the last",
            before: [post, .body], event: .inputClosed(more: false),
            effects: [.failBody, .halfClosed, .reschedule], phase: .lastRequest),
        Row(
            name: "a FIN arrives behind requests that wait until an answer is sent → the connection stays open",
            before: get + [answer, .writable(false), ended], event: .inputClosed(more: true), effects: .reschedule,
            phase: .open),
        Row(
            name: "a FIN has arrived, and no request before it is left → the connection closes",
            before: get + [answer, .writable(false), ended, .inputClosed(more: true), .writable(true)],
            event: .inputClosed(more: false), effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "a FIN has arrived, and then the rest of the body is decoded → the body is complete",
            before: [post, .body, .inputClosed(more: true)], event: .end, effects: .endBody, phase: .open),
        Row(
            name:
                "a FIN has arrived, and the rest of the body is too short → the body fails, and this request is the last",
            before: [post, .inputClosed(more: true), .body], event: .inputClosed(more: false),
            effects: [.failBody, .halfClosed, .reschedule], phase: .lastRequest),
        Row(
            name: "a piece is sent while earlier bytes are still unsent → no request is taken",
            before: [.writable(false)], event: .wrote, effects: [], phase: .open, takesInput: false),
        Row(
            name: "an answer ends, and requests came before the client's FIN → the next of them is taken",
            before: get + [.inputClosed(more: false), .answer(closes: false, more: true)],
            event: .answerEnded(more: true),
            effects: .next,
            phase: .open),
        Row(
            name: "a request's head is malformed → the broker refuses it", before: [], event: .refused(.malformed),
            effects: .refuse,
            phase: .lastRequest),
        Row(
            name: "a request's body is malformed → the service gets the failure and answers", before: [post, .body],
            event: .refused(.malformed),
            effects: .failBody, phase: .lastRequest),
        Row(
            name: "malformed input arrives after a refusal has ended → it is not refused again",
            before: [.refused(.malformed), answer, ended],
            event: .refused(.malformed), effects: [], phase: .closing),
        Row(
            name: "an answer cannot be completed → the connection is reset", before: get + [answer], event: .answerCut,
            effects: .reset,
            phase: .closed),
        Row(
            name: "a client expects 100 Continue, and its body is read → 100 Continue is sent",
            before: [
                head {
                    $0.hasBody = true; $0.expectsContinue = true
                }
            ], event: .bodyRead, effects: .sendContinue, phase: .open),
        Row(
            name: "a body is read again after 100 Continue was sent → no second 100 Continue is sent",
            before: [
                head {
                    $0.hasBody = true; $0.expectsContinue = true
                }, .bodyRead,
            ], event: .bodyRead, effects: [], phase: .open),
        Row(
            name: "a client sends its body without waiting for 100 Continue → 100 Continue is not sent",
            before: [
                head {
                    $0.hasBody = true; $0.expectsContinue = true
                }, .body,
            ], event: .bodyRead, effects: [], phase: .open),
        Row(
            name: "a body is read after the answer has begun → 100 Continue is not sent",
            before: [
                head {
                    $0.hasBody = true; $0.expectsContinue = true
                }, answer,
            ], event: .bodyRead, effects: [], phase: .lastRequest),
        Row(
            name: "the server shuts down, and a connection is idle → the connection closes",
            before: get + [answer, ended],
            event: .quiesce(more: false, pending: false), effects: .close, phase: .closed),
        Row(
            name:
                "the server shuts down, and a connection has unsent bytes → the connection closes after they are sent",
            before: get + [answer, ended],
            event: .quiesce(more: false, pending: true), effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name:
                "the server shuts down, and a connection has had no request yet → the connection waits for its first request",
            before: [],
            event: .quiesce(more: false, pending: false), effects: .reschedule, phase: .open, takesInput: true),
        Row(
            name: "the first request arrives during a shutdown → it is served",
            before: [.quiesce(more: false, pending: false), head()], event: .end,
            effects: .serve, phase: .open),
        Row(
            name: "the first request is answered during a shutdown → the connection closes",
            before: [.quiesce(more: false, pending: false), head(), .end, answer],
            event: ended, effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "the server shuts down while a request is served → the connection waits for the answer", before: get,
            event: .quiesce(more: false, pending: false),
            effects: [], phase: .open),
        Row(
            name: "an answer ends during a shutdown → the connection closes",
            before: get + [.quiesce(more: false, pending: false), answer], event: ended,
            effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "the server shuts down, and a further request has arrived → this request is taken",
            before: get + [.quiesce(more: true, pending: false), .answer(closes: false, more: true)],
            event: .answerEnded(more: true), effects: .next, phase: .open),
        Row(
            name: "unsent bytes are sent while a request's body is received → no effect", before: [post, .body],
            event: .writable(true),
            effects: [], phase: .open),
        Row(
            name: "the connection is lost while a request is served → no effect is left", before: get, event: .inactive,
            effects: [],
            phase: .closed),
    ]

    @Test(
        "A listener's connection gets the events of a row in this test's table → the effects and the phase of this row",
        arguments: table)
    func effects(row: Row) {
        var machine = Self.machine()
        for event in row.before { _ = machine.handle(event, at: 0) }
        #expect(machine.handle(row.event, at: 0) == row.effects)
        #expect(machine.phase == row.phase)
        if let takesInput = row.takesInput { #expect(machine.takesInput == takesInput) }
    }

    @Test(
        "The broker answers a request → the answer has the client's HTTP version, and says whether the connection closes"
    )
    func framing() {
        func framing(_ events: [Event], more: Bool = false) -> ServerConnection.AnswerFraming {
            var machine = Self.machine()
            for event in events { _ = machine.handle(event, at: 0) }
            _ = machine.handle(.answer(closes: false, more: more), at: 0)
            return machine.framing
        }
        #expect(framing(Self.get) == .init(minorVersion: 1, saysClose: false))
        #expect(
            framing(
                [
                    Self.head {
                        $0.minorVersion = 0; $0.closes = true
                    }, .end,
                ]) == .init(minorVersion: 0, saysClose: true))
        #expect(
            framing([Self.head { $0.isHead = true }, .end]) == .init(minorVersion: 1, saysClose: false, isHead: true))
        #expect(framing([Self.post]) == .init(minorVersion: 1, saysClose: true))
        #expect(framing([Self.post, .end]) == .init(minorVersion: 1, saysClose: false))
        #expect(framing(Self.get + [.inputClosed(more: false)]).saysClose)
        #expect(!framing(Self.get + [.inputClosed(more: false)], more: true).saysClose)
    }

    @Test("A new connection receives no head → closed after exactly 60 s")
    func idle() {
        var machine = Self.machine()
        #expect(machine.deadline == 60 * Self.second)
        #expect(machine.checkDeadlines(at: 59 * Self.second, taken: 0, pending: false) == [])
        #expect(machine.checkDeadlines(at: 60 * Self.second, taken: 0, pending: false) == .close)
    }

    @Test(
        "A connection is idle after an answer → closed after 75 s, so that proxies close first (nginx, AWS: 60 s)"
    )
    func keptConnection() {
        var machine = Self.machine()
        for event in Self.get + [Self.answer, Self.ended] { _ = machine.handle(event, at: 10 * Self.second) }
        #expect(machine.deadline == 85 * Self.second)
        #expect(machine.checkDeadlines(at: 84 * Self.second, taken: 0, pending: false) == [])
        #expect(machine.checkDeadlines(at: 85 * Self.second, taken: 0, pending: false) == .close)
    }

    @Test(
        "`keep_alive` is above 75 s → applies only to trusted proxies; it is below 75 s → applies to all peers (SEC-105)"
    )
    func keepAlive() {
        var limits = ConnectionLimits()
        func deadline(ofProxy: Bool, after events: [ServerConnection.Event]) -> Int64? {
            var machine = ServerConnection(limits: ConnectionTimes(limits, ofProxy: ofProxy), now: 0)
            for event in events { _ = machine.handle(event, at: 0) }
            return machine.deadline
        }
        let kept = Self.get + [Self.answer, Self.ended]
        limits.idle = .seconds(620)
        #expect(deadline(ofProxy: false, after: kept) == 75 * Self.second)
        #expect(deadline(ofProxy: true, after: kept) == 620 * Self.second)
        // Only the limit for idle connections differs for a proxy. The limits for the first head and for a body are those of
        // all clients.
        #expect(deadline(ofProxy: true, after: []) == 60 * Self.second)
        #expect(deadline(ofProxy: true, after: [Self.post, .body]) == 60 * Self.second)
        limits.idle = .seconds(5)
        for ofProxy in [false, true] {
            #expect(deadline(ofProxy: ofProxy, after: kept) == 5 * Self.second)
            #expect(deadline(ofProxy: ofProxy, after: []) == 5 * Self.second)
        }
    }

    @Test(
        "A service discards a request's body → no request follows on this connection, which closes one second after the answer"
    )
    func droppedBody() {
        var machine = Self.machine()
        _ = machine.handle(Self.post, at: 0)
        machine.dropBody()
        #expect(machine.phase == .lastRequest)
        // The answer may stream for hours while the discarded body arrives, so the body has no deadline.
        #expect(machine.deadline == nil)
        #expect(machine.handle(.body, at: Self.second) == .deliver)
        _ = machine.handle(Self.answer, at: Self.second)
        #expect(machine.framing.saysClose)
        #expect(machine.handle(Self.ended, at: Self.second).contains(.closeOutput))
        #expect(machine.handle(.outputClosed, at: 2 * Self.second) == .reschedule)
        #expect(machine.deadline == 3 * Self.second)
        #expect(machine.handle(Self.head(), at: 2 * Self.second) == [])
    }

    @Test(
        "The server shuts down, and a new connection has sent no request → closed one second after the connection was accepted"
    )
    func firstRequest() {
        var machine = Self.machine()
        _ = machine.handle(.quiesce(more: false, pending: false), at: Self.second / 2)
        #expect(machine.deadline == Self.second)
        #expect(machine.checkDeadlines(at: Self.second, taken: 0, pending: false) == .close)
        var late = Self.machine()
        #expect(late.handle(.quiesce(more: false, pending: false), at: Self.second) == .close)
    }

    @Test("A connection's idle time passes while bytes of an answer are still unsent → the connection is reset")
    func idleWithPending() {
        var machine = Self.machine()
        #expect(machine.checkDeadlines(at: 60 * Self.second, taken: 0, pending: true) == .reset)
    }

    @Test(
        "A service reads a request's body slowly → no deadline for the client, because only waiting for its bytes counts"
    )
    func slowBodyReader() {
        var machine = Self.machine()
        for event in [Self.post, .body] { _ = machine.handle(event, at: Self.second) }
        #expect(machine.deadline == 61 * Self.second)
        machine.wantsBody(false)
        #expect(machine.deadline == nil)
        #expect(machine.checkDeadlines(at: 1000 * Self.second, taken: 0, pending: false) == [])
        machine.wantsBody(true)
        #expect(machine.checkDeadlines(at: 61 * Self.second, taken: 0, pending: false) == [.close, .failBody])
    }

    @Test(
        "A client closes its side, and the service has not yet read the whole body → no deadline while the service is busy"
    )
    func halfClosedBody() {
        var machine = Self.machine()
        let get = Self.head { $0.hasBody = true }
        for event in [get, .body, .inputClosed(more: true)] { _ = machine.handle(event, at: 0) }
        machine.wantsBody(false)
        #expect(machine.deadline == nil)
    }

    @Test(
        "Bytes of a second request arrive before the first answer is written → read only after the answer is written (SEC-105)"
    )
    func pipelined() {
        var machine = Self.machine()
        for event in Self.get + [Self.answer, .writable(false), Self.ended] { _ = machine.handle(event, at: 0) }
        #expect(!machine.takesPart)
        _ = machine.handle(.writable(true), at: 0)
        #expect(machine.takesPart)
    }

    @Test("A service works on a complete request → the client's connection has no deadline")
    func serving() {
        var machine = Self.machine()
        for event in Self.get { _ = machine.handle(event, at: 0) }
        #expect(machine.deadline == nil)
    }

    @Test("A client reads less than 1 KiB a second over 30 s, after the first 10 s → the connection is reset")
    func slowReader() {
        for (perSecond, expected) in [(900, Effects.reset), (1100, [])] {
            var machine = Self.machine()
            for event in Self.get + [Self.answer, .writable(false)] { _ = machine.handle(event, at: 0) }
            var effects = Effects()
            for second in 1...60 where effects.isEmpty {
                effects = machine.checkDeadlines(
                    at: Int64(second) * Self.second, taken: second * perSecond, pending: true)
                if !effects.isEmpty { #expect((40...43).contains(second)) }
            }
            #expect(effects == expected)
        }
    }

    @Test("A client does not read the last answer of its connection → the connection is reset")
    func closing() {
        var machine = Self.machine()
        for event in [Self.head { $0.closes = true }, .end, Self.answer, .writable(false), Self.ended] {
            _ = machine.handle(event, at: 0)
        }
        var effects = Effects()
        for second in 1...60 where effects.isEmpty {
            effects = machine.checkDeadlines(at: Int64(second) * Self.second, taken: 0, pending: true)
        }
        #expect(effects == .reset)
    }

    @Test("The broker has closed its side of a connection → the whole connection is closed two seconds later")
    func linger() {
        var machine = Self.machine()
        for event in [Self.head { $0.closes = true }, .end, Self.answer, Self.ended, .outputClosed] {
            _ = machine.handle(event, at: 5 * Self.second)
        }
        #expect(machine.checkDeadlines(at: 6 * Self.second, taken: 0, pending: false) == [])
        #expect(machine.checkDeadlines(at: 7 * Self.second, taken: 0, pending: false) == .close)
    }

    @Test(
        "A client closes its side during a GET → cancelled 10 s after the last written byte; during a POST → the POST goes on"
    )
    func halfClosed() {
        var machine = Self.machine()
        for event in Self.get + [.inputClosed(more: false), .answer(closes: false, more: false)] {
            _ = machine.handle(event, at: 0)
        }
        _ = machine.handle(.wrote, at: 8 * Self.second)
        #expect(machine.checkDeadlines(at: 10 * Self.second, taken: 0, pending: false) == [])
        #expect(machine.checkDeadlines(at: 18 * Self.second, taken: 0, pending: false) == .cancel)
        var unsafe = Self.machine()
        for event in [Self.post, .end, .inputClosed(more: false)] { _ = unsafe.handle(event, at: 0) }
        #expect(unsafe.deadline == nil)
    }
}
