import ArgumentParser
import Broker
import BrokerProviders
import BrokerStore

/// Stores the sessions of another Coatcheck's export.
struct StoreImport: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Store the sessions of another Coatcheck's export; on SQLite the broker has to be stopped.",
        discussion: """
            The sessions keep their cookies and keys. A session that exists, has expired, or whose provider or client the \
            configuration does not name is skipped and listed. The command may be repeated.
            """)

    @OptionGroup var file: ConfigOption
    @Argument(help: "The file of the export.", completion: .file()) var exported: String
    @Option(help: "The private key, in PEM.", completion: .file()) var key: String
    @Option(help: "Your name, for the audit record.") var by: String

    /// The number of sessions that are stored in one transaction.
    private static let batch = 100

    func validate() throws { try AuditName.validate(by) }

    func run() async throws {
        guard let bytes = BoundedFile.read(key, limit: 65_536), let pem = String(validating: bytes, as: UTF8.self)
        else {
            throw ManagementClient.fault("\(key) is unreadable")
        }
        let opening: ImportKey
        do throws(ExportKeyFailure) { opening = try ImportKey(pem: pem) } catch {
            throw ManagementClient.fault("\(key) \(error)")
        }
        let configuration = try file.load()
        var lines: ImportFile
        do throws(FileFault) { lines = try ImportFile(exported) } catch {
            throw ManagementClient.fault("\(exported) is unreadable: it \(error)")
        }
        let isWhole: Bool
        do {
            if let user = BrokersUser(of: configuration.store) {
                isWhole = try await user.running { try await take(&lines, opening, configuration) }
            } else {
                isWhole = try await take(&lines, opening, configuration)
            }
        } catch let code as ExitCode {
            throw code
        } catch {
            throw ManagementClient.fault("the import has stopped: \(error)")
        }
        if !isWhole { throw ExitCode(1) }
    }

    private func take(
        _ lines: inout ImportFile, _ key: ImportKey, _ configuration: Configuration
    ) async throws -> Bool {
        let store = try await configuration.store.openForCopy()
        let composition = try await CommandComposition.make(configuration, store)
        do {
            let work = SessionImport(composition.running.current.context, store)
            let isWhole = try await take(&lines, key, into: work)
            await CommandComposition.close(composition)
            return isWhole
        } catch {
            await CommandComposition.close(composition)
            if let problem = error as? BrokerProblem { throw StartFailure(problem.words) }
            throw error
        }
    }

    /// Stores all sessions of the file; returns whether every line was usable and its session is in the store now.
    private func take(_ lines: inout ImportFile, _ key: ImportKey, into work: SessionImport) async throws -> Bool {
        var count = Count()
        var batch: [ExportedSession] = []
        var hasBegun = false
        while let line = try lines.next() {
            guard !line.bytes.allSatisfy({ $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\r") }) || line.isTooLong
            else {
                continue
            }
            guard let opened = line.isTooLong ? nil : key.open(line.bytes) else {
                if line.isTorn {
                    count.skip(
                        "line \(line.number) is incomplete, because the export was interrupted; its session goes on in "
                            + "the other store")
                    continue
                }
                guard hasBegun else {
                    throw StartFailure("\(self.key) fails to open line \(line.number) of \(exported)")
                }
                count.skip("line \(line.number) fails to open")
                continue
            }
            do throws(ExportedSession.Fault) { batch.append(try ExportedSession(json: opened)) } catch {
                guard case .member(let name) = error else {
                    try await store(&batch, work, &count)
                    throw StartFailure(
                        "line \(line.number) has the format of a newer version; use a newer coatcheck. "
                            + "\(count.stored) sessions are stored")
                }
                count.skip("line \(line.number) lacks a usable \(name.isEmpty ? "JSON" : name)")
            }
            if !hasBegun {
                hasBegun = true
                try await work.begin(actor: by)
            }
            if batch.count == Self.batch { try await store(&batch, work, &count) }
        }
        try await store(&batch, work, &count)
        print("\(count.stored) sessions are stored, \(count.existing) existed, \(count.skipped) are skipped")
        return count.skipped == 0
    }

    /// The lines of an import by their results.
    private struct Count {
        var stored = 0
        var existing = 0
        var skipped = 0

        mutating func skip(_ sentence: String) {
            skipped += 1
            StandardError.write(sentence)
        }
    }

    private func store(_ batch: inout [ExportedSession], _ work: SessionImport, _ count: inout Count) async throws {
        guard !batch.isEmpty else { return }
        let refusals = try await work.take(batch)
        for (session, refusal) in zip(batch, refusals) {
            switch refusal {
            case nil: count.stored += 1
            case .exists:
                count.existing += 1
                StandardError.write("\(session.handle) is skipped: \(SessionImport.Refusal.exists.rawValue)")
            case let refusal?: count.skip("\(session.handle) is skipped: \(refusal.rawValue)")
            }
        }
        batch = []
    }
}
