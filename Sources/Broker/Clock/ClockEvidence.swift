/// The witnesses that have confirmed the wall clock recently.
struct ClockEvidence: Sendable {
    /// The time for which a witness's confirmation counts.
    static let memory = Duration.seconds(150)
    /// The time after which a single witness other than the database is enough.
    static let longEnough = Duration.seconds(3600)

    private var lastHeard: [ClockWitness: Duration] = [:]
    /// The start of the unbroken time during which at least one witness other than the database confirmed the clock.
    ///
    /// The database always needs a second witness. The reason is that the database's clock itself gives the time that is in
    /// doubt. Its server may also run on this machine.
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

    /// Clears `since` if no witness other than the database confirms the clock.
    private mutating func endHour() {
        if lastHeard.keys.allSatisfy({ $0 == .store }) { since = nil }
    }

    mutating func clear() { self = ClockEvidence() }

    private mutating func forget(before moment: Duration) {
        lastHeard = lastHeard.filter { moment - $0.value <= Self.memory }
        endHour()
    }

    /// Returns the witnesses whose confirmation counts at a moment.
    func witnesses(at moment: Duration) -> [ClockWitness] {
        lastHeard.filter { moment - $0.value <= Self.memory }.keys.sorted { $0.word < $1.word }
    }

    /// Returns whether at least one witness confirms the clock.
    func isAny(at moment: Duration) -> Bool { lastHeard.contains { moment - $0.value <= Self.memory } }

    /// Whether the evidence is enough to end a doubt.
    ///
    /// Two witnesses are enough. One witness other than the database is enough if such witnesses have confirmed the clock for
    /// an hour without a break.
    func isEnough(at moment: Duration) -> Bool {
        let heard = witnesses(at: moment)
        guard heard.count < 2 else { return true }
        return heard.contains { $0 != .store } && since.map { moment - $0 >= Self.longEnough } ?? false
    }
}
