import ArgumentParser

/// Checks a configuration file and says all that is wrong with it.
struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a configuration file; status 1 if it cannot be used.",
        discussion: "With --online it also tries providers (discovery, keys, clock), the store and the keys.")

    @OptionGroup var file: ConfigOption
    @Flag(help: "Try the providers, the store and the keys, too.")
    var online = false

    func run() async throws {
        let configuration = try file.load()
        // What `serve` would refuse at its start is refused here.
        do throws(StartFailure) { _ = try KeyRingFile.load(configuration.keys) } catch {
            StandardError.write("\(file.config) cannot be used:\nkeys: \(error)\n1 error")
            throw ExitCode(1)
        }
        for warning in configuration.warnings { print(warning) }
        let clients = configuration.providers.reduce(0) { $0 + $1.clients.count }
        print("\(file.config) is in order: \(configuration.providers.count) providers, \(clients) clients")
        guard online else { return }
        let findings = await OnlineCheck.run(configuration)
        for finding in findings { print(finding) }
        guard findings.allSatisfy(\.isGood) else { throw ExitCode(1) }
    }
}
