import ArgumentParser
import Broker
import BrokerProviders
import BrokerStore

/// Takes sessions out for another system, sealed for its key.
struct StoreExport: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write the live sessions with their tokens to a file for another system, and end them here.",
        discussion: """
            Each line of the file is a JWE for the public key of --for. A session ends here when its line is on the disk; its \
            tokens stay valid. A stopped SQLite broker's database and PostgreSQL are opened directly. A running broker on \
            SQLite is asked through its management listener, with an admin token that has `export`. After a crash, export \
            again into another file, and import the newest file first.
            """)

    @OptionGroup var file: ConfigOption
    @OptionGroup var management: ManagementClient
    @Option(name: .customLong("for"), help: "The other system's public key, in PEM.", completion: .file())
    var key: String
    @Option(help: "The new file.", completion: .file()) var out: String
    @Option(help: "Your name, for the audit record.") var by: String
    @Option(help: "Only this provider's sessions.") var provider: String?
    @Option(help: "Only this client's; needs --provider.") var client: String?
    @Flag(help: "Keep the sessions here, and leave the tokens out.") var keep = false

    func validate() throws {
        guard client == nil || provider != nil else { throw ValidationError("--client needs --provider") }
        try AuditName.validate(by)
    }

    func run() async throws {
        guard let bytes = BoundedFile.read(key, limit: 65_536), let pem = String(validating: bytes, as: UTF8.self)
        else {
            throw ManagementClient.fault("\(key) is unreadable")
        }
        let sealing: ExportKey
        do throws(ExportKeyFailure) { sealing = try ExportKey(pem: pem) } catch {
            throw ManagementClient.fault("\(key) \(error)")
        }
        let configuration = try file.load()
        let filter = try filter(configuration)
        var out: ExportFile
        do throws(ExportFile.Failure) { out = try ExportFile(creating: self.out) } catch {
            throw ManagementClient.fault("nothing is exported: \(error)")
        }
        let result: ExportRun.Result
        do {
            result = try await export(configuration, filter, sealing, pem, into: &out)
        } catch {
            let isEmpty = out.length == 0
            out.removeIfEmpty()
            if !(error is ExitCode) { StandardError.write("\(error)") }
            throw ManagementClient.fault(
                isEmpty
                    ? "nothing is exported"
                    : "the export is incomplete: \(self.out) has every session that has ended. Export the others into another file, and import that file first"
            )
        }
        print("\(result.lines) sessions are in \(self.out)" + (keep ? ", without tokens" : ", and have ended here"))
        for missed in result.missed { StandardError.write("\(missed.handle) \(Self.words(missed.reason))") }
        guard result.missed.isEmpty else {
            StandardError.write("\(result.missed.count) sessions stay here")
            throw ExitCode(1)
        }
    }

    private static func words(_ reason: SessionExport.Missed.Reason) -> String {
        switch reason {
        case .busy: "its tokens are being refreshed, or its provider has asked for a pause"
        case .unchecked: "the user of its last refresh is still unverified; the session's next use verifies that"
        case .unreadable: "its row fails to open, because its key is missing in the ring or another version wrote it"
        }
    }

    /// Returns the selected provider and client, which the configuration has to contain.
    private func filter(_ configuration: Configuration) throws -> AdminSessions.Filter {
        guard let provider else { return AdminSessions.Filter() }
        guard let section = configuration.providers.first(where: { $0.name.text == provider }) else {
            throw ManagementClient.fault("\(file.config) lacks the provider \(provider)")
        }
        guard let client else { return AdminSessions.Filter(provider: section.name) }
        guard let found = section.clients.first(where: { $0.settings.profile.name.text == client }) else {
            throw ManagementClient.fault("\(file.config) lacks the client \(client) of the provider \(provider)")
        }
        return AdminSessions.Filter(provider: section.name, client: found.settings.profile.name)
    }

    private func export(
        _ configuration: Configuration, _ filter: AdminSessions.Filter, _ key: ExportKey, _ pem: String,
        into out: inout ExportFile
    ) async throws -> ExportRun.Result {
        do {
            let user = BrokersUser(of: configuration.store)
            guard let user else { return try await direct(configuration, filter, key, into: &out) }
            return try await user.running { try await direct(configuration, filter, key, into: &out) }
        } catch StoreOpenFailure.locked(_) {
            // The broker runs. Its user may be unable to read the file with the caller's admin token.
            return try await managed(pem, into: &out)
        }
    }

    private func direct(
        _ configuration: Configuration, _ filter: AdminSessions.Filter, _ key: ExportKey, into out: inout ExportFile
    ) async throws -> ExportRun.Result {
        let store = try await configuration.openForEnding()
        let composition = try await CommandComposition.make(configuration, store)
        let order = SessionExport.Order(filter, key: key, actor: by, keeps: keep)
        let source = StoredExport(export: SessionExport(composition.running.current.context), order: order)
        do {
            let result = try await ExportRun(source: source, keeps: keep).run(into: &out)
            await CommandComposition.close(composition)
            return result
        } catch {
            await CommandComposition.close(composition)
            if let problem = error as? BrokerProblem { throw StartFailure(problem.words) }
            throw error
        }
    }

    private func managed(_ pem: String, into out: inout ExportFile) async throws -> ExportRun.Result {
        let source = ManagedExport(
            client: try management.completed(by: file.config), pem: pem, by: by, provider: provider, clientName: client,
            keeps: keep)
        return try await ExportRun(source: source, keeps: keep).run(into: &out)
    }
}

/// The name of the person who runs a command, for the audit record.
enum AuditName {
    static func validate(_ name: String) throws {
        let isPlain = name.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
        guard (1...63).contains(name.unicodeScalars.count), isPlain else {
            throw ValidationError("--by needs a name of 1 to 63 printable characters")
        }
    }
}
