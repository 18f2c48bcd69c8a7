import ArgumentParser
import Glibc

/// The command line of the broker.
@main
struct Coatcheck: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "coatcheck",
        abstract: "An HTTP session broker: OAuth codes in, session cookies out.",
        version: Version.text,
        subcommands: [
            Serve.self, Check.self, Keys.self, Migrate.self, HashSecret.self, Sessions.self, Backup.self, Restore.self,
            StoreCommand.self, Health.self, ConfigCommand.self,
        ])

    static func main() async {
        // Ignore SIGHUP first, because a certificate hook may send it before the broker is ready.
        if CommandLine.arguments.dropFirst().first == Serve.configuration.commandName ?? "serve" {
            signal(SIGHUP, SIG_IGN)
        }
        await main(nil)
    }
}

/// The commands that move what is stored.
struct StoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "Move what is stored.",
        subcommands: [StoreCopy.self, StoreExport.self, StoreImport.self])
}

/// The commands that compare a configuration with a running broker.
struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Compare a configuration with the running one.",
        subcommands: [ConfigDiff.self])
}
