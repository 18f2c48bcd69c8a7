import ArgumentParser
import Broker
import BrokerVault

/// Removes an old key from the ring when no row needs it any more.
struct KeysRemove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Take an old key out of the key file, unless stored rows need it.",
        discussion: """
            A running broker is asked what needs the key (--token-file), or the store itself (--config), where the broker \
            is stopped or the store is PostgreSQL. One that was asked is asked again whether it has put the key away.
            """)

    /// The longest time for which replicas may still seal with the previous key, after a newer key has begun to seal.
    private static let grace = Duration.seconds(60)

    @OptionGroup var file: Keys.File
    @Argument(help: "The key's id.") var id: String
    @Option(help: "The management listener of a running broker.") var management = ManagementClient.standardAddress
    @Option(help: "A file with an admin token in its first line.") var tokenFile: String?
    @Option(help: "The configuration that names the store.") var config: String?
    @Flag(help: "The file is a copy that is brought to the brokers later: do not ask whether they have it.")
    var copy = false

    func validate() throws {
        guard (tokenFile != nil) != (config != nil) else {
            throw ValidationError("use --token-file to ask a running broker, or --config to read the store")
        }
    }

    func run() async throws {
        let now = SystemClock.wallTime()
        let old = try file.ring()
        let ring = try Keys.explaining(file.file) { () throws(KeyRingFailure) in try old.removing(id, now: now) }
        guard ring.sealingSince(at: now).advanced(by: Self.grace) <= now else {
            throw ManagementClient.fault(
                "\(ring.sealingID(at: now)) has begun to seal just now: others may still seal with \(id); wait a minute"
            )
        }
        let count = try await use()
        guard count == 0 else {
            throw ManagementClient.fault(
                "\(id) is not removed: \(count) stored values need it; `coatcheck keys reseal` seals them under the newest "
                    + "key, and answers of exchanges can be repeated for ten minutes")
        }
        try Keys.explaining(file.file) { () throws(PrivateFile.Failure) in
            try PrivateFile.replace(file.file, content: ring.json())
        }
        print("\(id) is removed from \(file.file); backups made before need it still")
        guard !copy, tokenFile != nil else { return }
        try await RunningRing(management: client).wait(for: file.file, toTell: "still has \(id)") { $0[id] == nil }
    }

    private var client: ManagementClient { ManagementClient(management: management, tokenFile: tokenFile ?? "") }

    private func use() async throws -> Int {
        guard let config else { return try await asked() }
        let settings = try ConfigOption.load(config).store
        return try await BrokersUser.running(settings) { _ in try await use(in: settings) }
    }

    private func use(in settings: StoreSettings) async throws -> Int {
        do {
            let store = try await settings.openForCopy()
            let since = SystemClock.wallTime().advanced(by: .zero - BrokerSettings().replayWindow - .seconds(60))
            let use: Result<[String: Int], StoreFailure>
            do throws(StoreFailure) { use = .success(try await store.keyUse(exchangesSince: since)) } catch {
                use = .failure(error)
            }
            await store.close()
            return try use.get()[id] ?? 0
        } catch {
            throw ManagementClient.fault("\(settings.place): \(error)")
        }
    }

    private func asked() async throws -> Int {
        let answer = try await client.call("GET", "/admin/v1/keys", within: .seconds(600))
        guard let items = answer?["items"]?.array else { throw ManagementClient.fault("\(management) does not answer") }
        let found = items.compactMap(\.object).first { $0["id"]?.string == id }
        return found?["values"]?.integer.flatMap { Int(exactly: $0) } ?? 0
    }
}
