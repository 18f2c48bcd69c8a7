import ArgumentParser
import BrokerStore

/// Brings the store's schema up to date.
struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Bring the store's schema up to date; `serve` does the same at its start.")

    @OptionGroup var file: ConfigOption

    func run() async throws {
        let store = try file.load().store
        try await BrokersUser.running(store) { _ in
            do throws(StoreOpenFailure) {
                let (from, to) = try await store.migrate()
                let place = store.place
                print(from == to ? "\(place) is up to date (version \(to))" : "\(place): version \(from) to \(to)")
            } catch {
                throw ManagementClient.fault("\(store.place): \(error)")
            }
        }
    }
}
