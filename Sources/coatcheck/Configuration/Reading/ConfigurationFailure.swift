/// Why a configuration cannot be used: every problem found, in the order of the file.
struct ConfigurationFailure: Error, Sendable, CustomStringConvertible {
    let problems: [ConfigProblem]

    var description: String { problems.map(\.description).joined(separator: "\n") }
}
