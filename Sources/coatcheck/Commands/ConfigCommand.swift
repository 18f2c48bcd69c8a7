import ArgumentParser

/// What one may ask about a configuration and a running broker.
struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Compare a configuration with the running one.",
        subcommands: [ConfigDiff.self])
}
