import BrokerTestSupport
import Testing

@Suite("Waiting for a condition", .timeLimit(.minutes(1)))
struct EventuallyTests {
    @Test("A condition stays false → the failure names the condition and the line that waits for it")
    func lost() async {
        let error = await #expect(throws: NotWithinTime.self) {
            try await eventually("the owner answers", within: .milliseconds(5)) { false }
        }
        #expect(error?.description.contains("the owner answers (BrokerTests/EventuallyTests.swift:") == true)
    }

    @Test(
        "A condition becomes true at its third check → three checks are made; a condition is true at once → a single check"
    )
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
