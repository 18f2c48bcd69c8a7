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
        Row(name: "a head alone waits for its end", before: [], event: head(), effects: [], phase: .open),
        Row(
            name: "a whole request is served", before: [head()], event: .end, effects: .serve, phase: .open,
            takesInput: false),
        Row(
            name: "a request with a body is served at its head", before: [], event: post, effects: .serve, phase: .open,
            takesInput: true),
        Row(name: "a piece of a body is handed on", before: [post], event: .body, effects: .deliver, phase: .open),
        Row(
            name: "a body ends", before: [post, .body], event: .end, effects: .endBody, phase: .open, takesInput: false),
        Row(
            name: "a request whose body came with its head waits for it", before: [], event: wholePost, effects: [],
            phase: .open, takesInput: true),
        Row(
            name: "such a body is kept, and nobody is asked to send it", before: [wholePost], event: .body,
            effects: .deliver, phase: .open, takesInput: true),
        Row(
            name: "with its end the request is served", before: [wholePost, .body], event: .end, effects: .serve,
            phase: .open, takesInput: false),
        Row(
            name: "another request may follow, whether its body was looked at or not",
            before: [wholePost, .body, .end, answer], event: ended, effects: .next, phase: .open, takesInput: true),
        Row(
            name: "a client that is gone before the end of such a body is not answered", before: [wholePost, .body],
            event: .inputClosed(more: false), effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "a second head while one is served is not taken", before: get, event: head(), effects: [],
            phase: .open),
        Row(
            name: "an answer ends and the next is taken", before: get + [answer], event: ended, effects: .next,
            phase: .open, takesInput: true),
        Row(
            name: "while the answer before is not sent nothing is taken", before: get + [answer, .writable(false)],
            event: ended, effects: .next, phase: .open, takesInput: false),
        Row(
            name: "once it is sent the next is taken", before: get + [answer, .writable(false), ended],
            event: .writable(true), effects: .next, phase: .open, takesInput: true),
        Row(
            name: "an answer that says close closes", before: get + [.answer(closes: true, more: true)],
            event: .answerEnded(more: true), effects: [.closeOutput, .reschedule], phase: .closing, takesInput: false),
        Row(
            name: "a request that says close is the last", before: [head { $0.closes = true }, .end, answer],
            event: .answerEnded(more: true), effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "nothing is served after close", before: [head { $0.closes = true }, .end, answer, ended],
            event: head(), effects: [], phase: .closing),
        Row(
            name: "a body that nobody read ends the connection", before: [post, answer], event: ended,
            effects: [.closeOutput, .reschedule, .failBody], phase: .closing),
        Row(
            name: "the linger begins when the output is closed",
            before: [head { $0.closes = true }, .end, answer, ended], event: .outputClosed, effects: .reschedule,
            phase: .lingering),
        Row(
            name: "a FIN ends the linger", before: [head { $0.closes = true }, .end, answer, ended, .outputClosed],
            event: .inputClosed(more: false), effects: .close, phase: .closed),
        Row(
            name: "after a FIN there is no linger", before: get + [.inputClosed(more: false), answer, ended],
            event: .outputClosed,
            effects: .close, phase: .closed),
        Row(
            name: "a FIN between requests closes", before: [], event: .inputClosed(more: false),
            effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "a FIN behind a whole request lets it be answered", before: get, event: .inputClosed(more: false),
            effects: [.halfClosed, .reschedule], phase: .open),
        Row(
            name: "a FIN within a body fails it", before: [post, .body], event: .inputClosed(more: false),
            effects: [.failBody, .halfClosed, .reschedule], phase: .lastRequest),
        Row(
            name: "a FIN behind requests that wait for room closes nothing",
            before: get + [answer, .writable(false), ended], event: .inputClosed(more: true), effects: .reschedule,
            phase: .open),
        Row(
            name: "once they are answered it does",
            before: get + [answer, .writable(false), ended, .inputClosed(more: true), .writable(true)],
            event: .inputClosed(more: false), effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "a FIN behind a body that its reader has not taken leaves it whole",
            before: [post, .body, .inputClosed(more: true)], event: .end, effects: .endBody, phase: .open),
        Row(
            name: "a FIN behind the rest of a body fails it when nothing is left",
            before: [post, .inputClosed(more: true), .body], event: .inputClosed(more: false),
            effects: [.failBody, .halfClosed, .reschedule], phase: .lastRequest),
        Row(
            name: "while an answer before is not sent no other request is taken, however many have come",
            before: [.writable(false)], event: .wrote, effects: [], phase: .open, takesInput: false),
        Row(
            name: "requests that came before a FIN are answered",
            before: get + [.inputClosed(more: false), .answer(closes: false, more: true)],
            event: .answerEnded(more: true),
            effects: .next,
            phase: .open),
        Row(
            name: "a malformed head is refused", before: [], event: .refused(.malformed), effects: .refuse,
            phase: .lastRequest),
        Row(
            name: "a malformed body is its request's to answer", before: [post, .body], event: .refused(.malformed),
            effects: .failBody, phase: .lastRequest),
        Row(
            name: "nothing is refused after the end", before: [.refused(.malformed), answer, ended],
            event: .refused(.malformed), effects: [], phase: .closing),
        Row(
            name: "an answer that cannot go on is a reset", before: get + [answer], event: .answerCut, effects: .reset,
            phase: .closed),
        Row(
            name: "100 Continue is said when the body is read",
            before: [
                head {
                    $0.hasBody = true; $0.expectsContinue = true
                }
            ], event: .bodyRead, effects: .sendContinue, phase: .open),
        Row(
            name: "and once only",
            before: [
                head {
                    $0.hasBody = true; $0.expectsContinue = true
                }, .bodyRead,
            ], event: .bodyRead, effects: [], phase: .open),
        Row(
            name: "and not to who sends without waiting",
            before: [
                head {
                    $0.hasBody = true; $0.expectsContinue = true
                }, .body,
            ], event: .bodyRead, effects: [], phase: .open),
        Row(
            name: "and not after the answer has begun",
            before: [
                head {
                    $0.hasBody = true; $0.expectsContinue = true
                }, answer,
            ], event: .bodyRead, effects: [], phase: .lastRequest),
        Row(
            name: "a shutdown closes who is idle", before: get + [answer, ended],
            event: .quiesce(more: false, pending: false), effects: .close, phase: .closed),
        Row(
            name: "a shutdown waits for what is not sent", before: get + [answer, ended],
            event: .quiesce(more: false, pending: true), effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "a shutdown waits for the first request of who has just come", before: [],
            event: .quiesce(more: false, pending: false), effects: .reschedule, phase: .open, takesInput: true),
        Row(
            name: "which is served", before: [.quiesce(more: false, pending: false), head()], event: .end,
            effects: .serve, phase: .open),
        Row(
            name: "and is the last", before: [.quiesce(more: false, pending: false), head(), .end, answer],
            event: ended, effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "a shutdown waits for the answer", before: get, event: .quiesce(more: false, pending: false),
            effects: [], phase: .open),
        Row(
            name: "and closes behind it", before: get + [.quiesce(more: false, pending: false), answer], event: ended,
            effects: [.closeOutput, .reschedule], phase: .closing),
        Row(
            name: "a shutdown serves what has come in",
            before: get + [.quiesce(more: true, pending: false), .answer(closes: false, more: true)],
            event: .answerEnded(more: true), effects: .next, phase: .open),
        Row(
            name: "a body whose reader has enough is not read", before: [post, .body], event: .writable(true),
            effects: [], phase: .open),
        Row(
            name: "a connection that is gone leaves nothing to do", before: get, event: .inactive, effects: [],
            phase: .closed),
    ]

    @Test(
        "A listener's connection is in a state of this test's table, and an event comes → the expected effects and phase",
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
