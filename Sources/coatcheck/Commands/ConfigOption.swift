import ArgumentParser

/// The option for the configuration file.
struct ConfigOption: ParsableArguments {
    @Option(name: .long, help: "The configuration file.", completion: .file(extensions: ["yaml", "yml"]))
    var config: String

    /// Loads the file.
    ///
    /// On a fault, prints every problem on standard error and ends with status 1.
    func load() throws -> Configuration { try Self.load(config) }

    /// Loads a file.
    ///
    /// On a fault, prints every problem on standard error and ends with status 1.
    static func load(_ config: String) throws -> Configuration {
        do throws(ConfigurationFailure) {
            return try Configuration.load(path: config)
        } catch {
            let errors = error.problems.filter { $0.severity == .error }.count
            StandardError.write("\(config) cannot be used:\n\(error)\n\(errors) \(errors == 1 ? "error" : "errors")")
            throw ExitCode(1)
        }
    }
}

/// The configuration file that provides a command's defaults.
struct ConfigDefaults: ParsableArguments {
    @Option(
        name: .long, help: "The configuration file, for the management listener's address.",
        completion: .file(extensions: ["yaml", "yml"]))
    var config: String?
}
