import ArgumentParser

/// Checks a configuration file and says all that is wrong with it.
struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a configuration file; status 1 if it cannot be used.")

    @OptionGroup var file: ConfigOption

    func run() async throws {
        let configuration = try file.load()
        for warning in configuration.warnings { print(warning) }
        let clients = configuration.providers.reduce(0) { $0 + $1.clients.count }
        print("\(file.config) is in order: \(configuration.providers.count) providers, \(clients) clients")
    }
}
