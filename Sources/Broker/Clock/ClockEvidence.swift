/// The witnesses that have confirmed the wall clock recently.
///
/// A witness is a source of evidence, such as the kernel.
struct ClockEvidence: Sendable {
    /// The time for which a witness's confirmation counts.
    static let memory = Duration.seconds(150)
    /// If only one witness confirms the clock, it has to be another witness than the database, and confirm the clock for this
    /// time.
    static let longEnough = Duration.seconds(3600)

    private var lastHeard: [ClockWitness: Duration] = [:]
    /// The moment since which at least one witness other than the database has confirmed the clock without a break.
    ///
    /// The database always needs a second witness, because the time in doubt comes from the database's clock. The database's
    /// server may also run on this machine.
    private var since: Duration?

    mutating func confirm(_ witness: ClockWitness, at moment: Duration) {
        forget(before: moment)
        lastHeard[witness] = moment
        if witness != .store { since = since ?? moment }
    }

    mutating func refute(_ witness: ClockWitness) {
        lastHeard[witness] = nil
        endHour()
    }

    /// Ends the unbroken time unless a witness other than the database confirms the clock now.
    private mutating func endHour() {
        if lastHeard.keys.allSatisfy({ $0 == .store }) { since = nil }
    }

    mutating func clear() { self = ClockEvidence() }

    private mutating func forget(before moment: Duration) {
        lastHeard = lastHeard.filter { moment - $0.value <= Self.memory }
        endHour()
    }

    /// Returns the witnesses that confirmed the clock within the last 150 seconds.
    func witnesses(at moment: Duration) -> [ClockWitness] {
        lastHeard.filter { moment - $0.value <= Self.memory }.keys.sorted { $0.word < $1.word }
    }

    /// Returns whether at least one witness confirmed the clock within the last 150 seconds.
    func isAny(at moment: Duration) -> Bool { lastHeard.contains { moment - $0.value <= Self.memory } }

    /// Returns whether the evidence is enough to end a doubt.
    ///
    /// Two witnesses are always enough. One witness is enough if it is not the database, and if there has been such a witness
    /// at every moment of the last hour.
    func isEnough(at moment: Duration) -> Bool {
        let heard = witnesses(at: moment)
        guard heard.count < 2 else { return true }
        return heard.contains { $0 != .store } && since.map { moment - $0 >= Self.longEnough } ?? false
    }
}
