import Testing

@testable import Sandbox

@Suite("The events that the playground's phone reads", .timeLimit(.minutes(1)))
struct EventParserTests {
    @Test(
        "A stream of events in pieces of 1 to 100 bytes → the same events, without comments and the unfinished last event"
    )
    func cuts() {
        let stream = ": hello\n\nevent: session\r\ndata: {\"a\":1}\r\n\r\ndata: x\ndata: y\n\nevent: half\n"
        for size in [1, 2, 3, 7, 100] {
            var parser = EventParser()
            var events: [(name: String, data: String)] = []
            var rest = Array(stream.utf8)[...]
            while !rest.isEmpty {
                events += parser.take(rest.prefix(size))
                rest = rest.dropFirst(size)
            }
            #expect(events.map(\.name) == ["session", "message"])
            #expect(events.map(\.data) == [#"{"a":1}"#, "x\ny"])
        }
    }
}
