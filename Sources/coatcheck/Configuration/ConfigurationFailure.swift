/// The reason why a configuration cannot be used: every problem found, in the file's order.
struct ConfigurationFailure: Error, Sendable, CustomStringConvertible {
    let problems: [ConfigProblem]

    var description: String { problems.map(\.description).joined(separator: "\n") }
}
