import ArgumentParser
import BrokerStore

/// Brings the store's schema up to date.
struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Bring the store's schema up to date; `serve` does the same at its start.")

    @OptionGroup var file: ConfigOption

    func run() async throws {
        let path = try file.load().store.path
        do throws(StoreOpenFailure) {
            let (from, to) = try await SQLiteStore.migrate(path: path)
            print(from == to ? "\(path) is up to date (version \(to))" : "\(path): version \(from) to \(to)")
        } catch {
            StandardError.write("\(path): \(error)")
            throw ExitCode(1)
        }
    }
}
