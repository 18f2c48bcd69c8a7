/// What a process remembers for a short time: its refreshes underway, how its store stands, who answered lately, who
/// signs in just now.
final class ProcessMemory: Sendable {
    let flights = RefreshFlights()
    let store: StoreWatch
    let answers = TokenAnswers()
    let signIns = SignInsUnderWay()

    init(startedAt moment: Duration) { store = StoreWatch(startedAt: moment) }
}
