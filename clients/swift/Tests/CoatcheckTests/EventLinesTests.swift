import Foundation
import Testing

@testable import Coatcheck

@Suite("Server-sent events")
struct EventLinesTests {
    @Test("An event stream in pieces of any size → the same events; comments and unknown events → ignored")
    func pieces() {
        let text =
            ": hello\n\nevent: tokens_refreshed\ndata: {}\n\nevent: later\ndata: {}\n\nevent: session_ended\ndata: {\"reason\":\"admin\"}\n\n"
        for size in [1, 2, 3, 7, 1000] {
            var lines = EventLines()
            var events: [SessionEvent] = []
            var rest = Data(text.utf8)
            while !rest.isEmpty {
                events += lines.take(Data(rest.prefix(size)))
                rest = Data(rest.dropFirst(size))
            }
            #expect(events == [.tokensRefreshed, .ended(reason: "admin")], "\(size)")
        }
    }

    @Test("The pause before a repeated call → grows, follows Retry-After, and is nil if it exceeds the deadline")
    func pauses() throws {
        let begin = ContinuousClock.now
        let patience = Patience(deadline: .seconds(60), longestPause: .seconds(30))
        #expect(try #require(patience.pause(try: 0, since: begin, retryAfter: nil)) < .seconds(1))
        #expect(try #require(patience.pause(try: 5, since: begin, retryAfter: nil)) > .seconds(5))
        #expect(try #require(patience.pause(try: 0, since: begin, retryAfter: .seconds(7))) >= .seconds(7))
        #expect(patience.pause(try: 0, since: begin, retryAfter: .seconds(31)) == nil)
        #expect(Patience(deadline: .seconds(1)).pause(try: 0, since: begin, retryAfter: .seconds(2)) == nil)
    }
}
