import ArgumentParser
import Broker
import BrokerStore
import BrokerVault

/// Puts a backup in the place of a stopped broker's database.
struct Restore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Put a backup in the place of the SQLite database; the broker has to be stopped.",
        discussion: """
            The database that stands there is kept beside it. Sessions that were ended since the backup live again: end \
            them, or generate a new key ring and let everybody sign in.
            """)

    @OptionGroup var file: ConfigOption
    @Argument(help: "The backup.") var backup: String
    @Flag(help: "Also a backup that the key ring does not open.") var anyRing = false

    func run() async throws {
        let configuration = try file.load()
        guard case .sqlite(let path) = configuration.store else {
            throw ManagementClient.fault("the store is no SQLite database: restore PostgreSQL with its own means")
        }
        do {
            let vault = try Composition.makeVault(configuration.keys)
            let takesAny = anyRing
            let (copy, kept) = try await SQLiteStore.restore(
                backup, to: path, stamp: SystemClock.wallTime().rfc3339.filter { $0 != ":" && $0 != "-" }
            ) { copy throws(StoreOpenFailure) in
                let check = RingCheck(copy.sample, vault)
                guard check.isGood || takesAny else {
                    throw .refused("\(check): put the ring of that time back, or say --any-ring")
                }
            }
            print("\(path): \(copy.sessions) sessions, schema version \(copy.schema)")
            print("\(RingCheck(copy.sample, vault))")
            if let kept { print("what stood there is kept as \(kept)") }
        } catch {
            throw ManagementClient.fault("nothing is restored: \(error)")
        }
    }
}
