/// An independent source of evidence that the wall clock is right.
package enum ClockWitness: Sendable, Hashable {
    /// The kernel reports that a time service keeps its clock.
    case kernel
    /// The wall clock shows the time that its last reading before the jump and the boot clock predict.
    case course
    /// The database's clock agrees, and its server is another machine.
    case store
    /// A provider's `Date` agrees. Two providers at one host are one witness.
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
