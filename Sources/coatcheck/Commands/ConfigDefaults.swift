import ArgumentParser

/// The configuration file that a command takes its defaults from.
struct ConfigDefaults: ParsableArguments {
    @Option(
        name: .long, help: "The configuration file, for the management listener's address.",
        completion: .file(extensions: ["yaml", "yml"]))
    var config: String?
}
