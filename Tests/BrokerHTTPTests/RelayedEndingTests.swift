import Broker
import BrokerTestSupport
import Testing

@testable import BrokerHTTP

/// The end times of relayed answers to calls that were made with a pass (guarantee 9).
///
/// RelayedAnswerTests shows that the answers end at these times.
@Suite(.timeLimit(.minutes(1)))
struct RelayedEndingTests {
    /// Returns the time that a relayed answer may still take.
    ///
    /// The call began `late` ago. When it began, its pass was valid for another 60 s.
    private func rest(isEventStream: Bool, late: Duration = .zero) -> Duration {
        let time = TestClock()
        let ending = RelayedEnding(passEndsAt: time.now.advanced(by: .seconds(60)), time.clock)
        time.advance(late)
        return ending.rest(isEventStream: isEventStream)
    }

    @Test("A pass ends → an event stream that was opened with this pass ends at once, any other answer an hour later")
    func ends() {
        #expect(rest(isEventStream: true) == .seconds(60))
        #expect(rest(isEventStream: false) == .seconds(3660))
    }

    @Test(
        "A slow upload or upstream delays an answer → an event stream still ends when the pass ends, another answer an hour later"
    )
    func late() {
        #expect(rest(isEventStream: true, late: .seconds(40)) == .seconds(20))
        #expect(rest(isEventStream: true, late: .seconds(90)) == .zero)
        #expect(rest(isEventStream: false, late: .seconds(3000)) == .seconds(660))
    }
}
