/// An independent source of evidence that the wall clock is right.
package enum ClockWitness: Sendable, Hashable {
    /// The kernel reports that a time service keeps the machine's clock right.
    case kernel
    /// The wall clock has returned to its course: it shows the time that its last reading before the jump and the boot clock
    /// predict.
    case course
    /// The database's clock agrees with the machine's clock, and the database server is another machine.
    case store
    /// The `Date` field of a provider's answer agrees with the clock.
    ///
    /// Two providers at one host count as one witness.
    case provider(host: String)

    /// The name of the witness in logs and metrics.
    package var word: String {
        switch self {
        case .kernel: "kernel"
        case .course: "course"
        case .store: "database"
        case .provider: "provider"
        }
    }
}
