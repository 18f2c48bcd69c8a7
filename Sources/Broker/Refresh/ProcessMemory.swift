/// What a process remembers for a short time: its refreshes underway, how its store stands, who answered lately, who
/// signs in just now, the proofs that were taken.
final class ProcessMemory: Sendable {
    let flights = RefreshFlights()
    let store: StoreWatch
    let answers = TokenAnswers()
    let signIns = SignInsUnderWay()

    let proofs = TakenProofs()
    /// The scope of its nonces: its own where it alone remembers which proofs were taken, so that after a restart no proof of
    /// before is taken a second time.
    let nonceScope: String

    /// Creates the memory of a process that begins now.
    init(startedAt moment: Duration, nonceScope: String) {
        store = StoreWatch(startedAt: moment)
        self.nonceScope = nonceScope
    }
}
