import BrokerTestSupport
import Testing

@Suite("Waiting for a condition", .timeLimit(.minutes(1)))
struct EventuallyTests {
    @Test("A condition that does not come to hold is named, with the place that waits for it")
    func lost() async {
        let error = await #expect(throws: NotWithinTime.self) {
            try await eventually("the owner answers", within: .milliseconds(5)) { false }
        }
        #expect(error?.description.contains("the owner answers (BrokerTests/EventuallyTests.swift:") == true)
    }

    @Test("It is asked for again until it holds, and once where it holds already")
    func asked() async throws {
        for count in [1, 3] {
            var asked = 0
            try await eventually("it was asked \(count) times") {
                asked += 1
                return asked == count
            }
            #expect(asked == count)
        }
    }
}
