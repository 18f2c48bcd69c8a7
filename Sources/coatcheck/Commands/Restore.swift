import ArgumentParser
import Broker
import BrokerStore
import BrokerVault

/// Replaces the database of a stopped broker by a backup.
struct Restore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Put a backup in the place of the SQLite database; the broker has to be stopped.",
        discussion: """
            The database that stands there is kept beside it. Sessions that were ended since the backup are ended again by \
            what store.endings_file names. Where it cannot tell all of them, --without-endings is needed: those live again.
            """)

    @OptionGroup var file: ConfigOption
    @Argument(help: "The backup.", completion: .file()) var backup: String
    @Flag(help: "Also a backup that the key ring does not open.") var anyRing = false
    @Flag(help: "Also where it is not known who has been logged out since the backup.") var withoutEndings = false

    func run() async throws {
        let configuration = try file.load()
        guard case .sqlite(let path, let endings) = configuration.store else {
            throw ManagementClient.fault("the store is not SQLite; restore PostgreSQL with its own tools")
        }
        do {
            // Open the backup before the switch to the broker's user, because perhaps only root can read it.
            let copy = try BackupFile(backup)
            try await BrokersUser.running(configuration.store) { user in
                let vault: OpenSSLVault
                do throws(StartFailure) { vault = try Composition.makeVault(configuration.keys) } catch {
                    throw StartFailure("\(error)" + (user?.asWhom ?? ""))
                }
                try await restore(copy, to: path, endings, vault)
            }
        } catch let code as ExitCode {
            throw code
        } catch {
            throw ManagementClient.fault("nothing is restored: \(error)")
        }
    }

    private func restore(_ copy: BackupFile, to path: String, _ endings: String?, _ vault: OpenSSLVault) async throws {
        let (takesAny, takesLoss) = (anyRing, withoutEndings)
        let restored = try await SQLiteStore.restore(
            copy, to: path, stamp: SystemClock.wallTime().rfc3339.filter { $0 != ":" && $0 != "-" },
            endings: endings
        ) { copy, summary throws(StoreOpenFailure) in
            let check = RingCheck(copy.sample, vault)
            guard check.isGood || takesAny else {
                throw .refused("\(check); use the key ring from the time of the backup, or --any-ring")
            }
            guard let loss = EndingsLoss(copy, summary, file: endings) else { return }
            guard takesLoss else { throw .refused("\(loss); to restore anyway, use --without-endings") }
            StandardError.write("\(loss)")
        }
        print("\(path): \(restored.copy.sessions) sessions, schema version \(restored.copy.schema)")
        print("\(RingCheck(restored.copy.sample, vault))")
        if let ended = restored.ended { print("\(ended) of them had ended since, and are ended") }
        if let kept = restored.kept { print("the old database is kept as \(kept)") }
    }
}

/// The log-outs that a restore undoes, in words.
struct EndingsLoss: CustomStringConvertible {
    let description: String

    /// Creates the sentence; nil if no log-out is undone.
    init?(_ copy: DatabaseCopy, _ endings: EndingsSummary?, file: String?) {
        guard let last = copy.lastMoment else { return nil }
        let since = "log-outs since \(last.rfc3339), the last moment that the backup knows of,"
        guard let file else {
            description = "\(since) are lost: store.endings_file is not set"
            return
        }
        guard let endings else {
            description = "\(since) are lost: \(file) is not there"
            return
        }
        if endings.since > last {
            description = "\(since) are lost up to \(endings.since.rfc3339), when \(file) begins"
        } else if endings.damaged > 0 {
            description = "\(endings.damaged) lines of \(file) are unreadable, so up to as many log-outs are lost"
        } else {
            return nil
        }
    }
}
