/// An independent source of evidence about the clock.
package enum ClockWitness: Sendable, Hashable {
    /// The kernel reports that a time service keeps its clock.
    case kernel
    /// The clock is on its course from before the jump, as the boot clock carries it on.
    case course
    /// The database's clock agrees, and its server is another machine.
    case store
    /// A provider's `Date` agrees. Two providers at one host are one witness.
    case provider(host: String)

    /// The word for logs and metrics.
    package var word: String {
        switch self {
        case .kernel: "kernel"
        case .course: "course"
        case .store: "database"
        case .provider: "provider"
        }
    }
}

/// The witnesses that agree with the clock now.
struct ClockEvidence: Sendable {
    /// The time that a witness counts after its last confirmation.
    static let memory = Duration.seconds(150)
    /// The time until a single witness is enough, unless it is the database.
    static let longEnough = Duration.seconds(3600)

    private var lastHeard: [ClockWitness: Duration] = [:]
    /// The start of an unbroken time with a witness that may be enough alone.
    ///
    /// The database always needs a second witness. Its clock gives the time that is judged, and its machine may be this one.
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

    /// Ends the hour together with the last witness that may be enough alone.
    private mutating func endHour() {
        if lastHeard.keys.allSatisfy({ $0 == .store }) { since = nil }
    }

    mutating func clear() { self = ClockEvidence() }

    private mutating func forget(before moment: Duration) {
        lastHeard = lastHeard.filter { moment - $0.value <= Self.memory }
        endHour()
    }

    /// The witnesses that count at a moment.
    func witnesses(at moment: Duration) -> [ClockWitness] {
        lastHeard.filter { moment - $0.value <= Self.memory }.keys.sorted { $0.word < $1.word }
    }

    /// Whether at least one witness agrees.
    func isAny(at moment: Duration) -> Bool { lastHeard.contains { moment - $0.value <= Self.memory } }

    /// Whether the evidence is enough to end a doubt: two witnesses, or one other than the database for an hour.
    func isEnough(at moment: Duration) -> Bool {
        let heard = witnesses(at: moment)
        guard heard.count < 2 else { return true }
        return heard.contains { $0 != .store } && since.map { moment - $0 >= Self.longEnough } ?? false
    }
}
