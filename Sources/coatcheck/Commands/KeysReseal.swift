import ArgumentParser
import Broker
import BrokerVault

/// Makes a running broker reseal the values that older keys have sealed.
struct KeysReseal: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reseal",
        abstract: "Seal everything under the newest key, in the background of a running broker; shows how far it is.",
        discussion: """
            It can be broken off and begun again at any time; the broker goes on without this command. First it looks \
            whether the broker has the newest key of its file (that of --file, or of the configuration): status 1 if not.
            """)

    @OptionGroup var defaults: ConfigDefaults
    @OptionGroup var options: ManagementClient
    @Option(help: "The broker's key file (default: the configuration's).", completion: .file(extensions: ["json"]))
    var file: String?

    func run() async throws {
        let management = try options.completed(by: defaults.config)
        try await lookWhetherItHeard(RunningRing(management: management))
        var answer = try await management.call("POST", "/admin/v1/keys/reseal")
        if answer?["state"]?.string == "elsewhere" {
            throw ManagementClient.fault("another process is at it; ask there, or again in half a minute")
        }
        func number(_ name: String) -> Int { answer?[name]?.integer.flatMap { Int(exactly: $0) } ?? 0 }
        var bar = ProgressBar(total: number("total"))
        var shown = 0
        while answer?["state"]?.string == "running" {
            bar.advance(number("seen") - shown)
            shown = number("seen")
            try await Task.sleep(for: .milliseconds(200))
            answer = try await management.call("GET", "/admin/v1/keys/reseal")
        }
        bar.advance(number("total") - shown)
        bar.finish()
        guard answer?["state"]?.string == "done" else {
            throw ManagementClient.fault("it was broken off: begin it again")
        }
        print("sealed again \(number("resealed")) of \(number("seen")) values under \(answer?["key"]?.string ?? "-")")
        guard number("unopened") == 0 else {
            throw ManagementClient.fault("\(number("unopened")) values do not open with this ring and are unchanged")
        }
    }

    /// Ends the command with status 1 if the running broker lacks the newest key of the file.
    ///
    /// Such a broker would reseal under an older key, and the command would report success. Without `--file`, the check is
    /// left out if the key file is unknown or cannot be read, and a message reports this.
    private func lookWhetherItHeard(_ running: RunningRing) async throws {
        let ring: KeyRing
        let place: String
        if let file {
            place = file
            ring = try Keys.explaining(file) { () throws(StartFailure) in try KeyRingFile.load(file) }
        } else if let config = defaults.config, let named = try KeyFileName.read(config) {
            place = named
            do throws(StartFailure) { ring = try KeyRingFile.load(named) } catch {
                StandardError.write("the broker's newest key was not checked: \(error)")
                return
            }
        } else {
            StandardError.write("the broker's newest key was not checked; use --config or --file")
            return
        }
        guard let newest = ring.list(at: SystemClock.wallTime()).first else { return }
        if let until = newest.waitsUntil {
            try await running.wait(for: place, toTell: "does not know \(newest.id)") { $0[newest.id] != nil }
            StandardError.write(
                "\(newest.id) seals from \(until.rfc3339) on; until then, values are resealed under the previous key")
        } else {
            try await running.wait(for: place, toTell: "does not seal with \(newest.id)") { $0[newest.id] == "seals" }
        }
    }
}

/// Reads the keys of a running broker, once or until the broker has adopted a change of its key file.
struct RunningRing: Sendable {
    /// The number of attempts, one second apart, to see the change in the broker, which checks its key file every two seconds.
    private static let patience = 15
    let management: ManagementClient

    /// Returns the use of each key in the broker's ring (`seals`, `opens` or `waits`), by key id.
    ///
    /// A key is left out if stored rows name it but the ring lacks it.
    func keys() async throws -> [String: String] {
        let answer = try await management.call("GET", "/admin/v1/keys", within: .seconds(600))
        guard let items = answer?["items"]?.array?.compactMap(\.object) else {
            throw ManagementClient.fault("the answer is not from a Coatcheck broker; check --management")
        }
        return items.reduce(into: [:]) { keys, item in
            guard let id = item["id"]?.string, let use = item["use"]?.string, use != "missing" else { return }
            keys[id] = use
        }
    }

    /// Waits until the broker has adopted the file's key ring.
    ///
    /// If the wait is in vain, ends the command with a sentence and status 1.
    func wait(for file: String, toTell what: String, until isRight: ([String: String]) -> Bool) async throws {
        for attempt in 1...Self.patience {
            if isRight(try await keys()) { return }
            if attempt < Self.patience { try await Task.sleep(for: .seconds(1)) }
        }
        throw ManagementClient.fault(
            "the running broker \(what) of \(file): it has not read the file, or reads another one. Look in its log for "
                + "\"keys not reloaded\". The file has to belong to its user, or to its group with mode 0640. Then repeat this command"
        )
    }
}
