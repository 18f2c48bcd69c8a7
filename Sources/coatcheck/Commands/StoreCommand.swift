import ArgumentParser

/// Works on the store of a stopped broker.
struct StoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "Move what is stored.", subcommands: [StoreCopy.self])
}
