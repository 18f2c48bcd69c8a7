import ArgumentParser
import Broker
import BrokerStore
import Foundation

/// Copies a store into another store, which may have the other engine.
struct StoreCopy: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy", abstract: "Copy everything into another, empty store; no broker may be at work on either.",
        discussion: """
            The other store is migrated first. Values stay sealed as they are: the new store needs the same key ring. \
            Afterwards set store.url to it and start the brokers.
            """)

    @OptionGroup var file: ConfigOption
    @Option(help: "The other store: sqlite:FILE or postgresql://…, or env:NAME for a variable that holds its URL.")
    var to: String

    /// The number of rows in one batch.
    private static let batch = 500

    func run() async throws {
        let settings = try file.load().store
        do {
            let target = try StoreSettings(url: url())
            if case (.sqlite(let from, _), .sqlite(let path, _)) = (settings, target), from == path {
                throw StartFailure("that is the same store")
            }
            // Run as the owner of the SQLite store. If both stores are SQLite, run as the owner of the source, who must also
            // have access to the target.
            try await BrokersUser.running(settings.isLocked ? settings : target) { _ in
                let source = try await settings.openForCopy()
                do {
                    try await copy(source, settings, to: target)
                } catch {
                    await source.close()
                    throw error
                }
                await source.close()
            }
        } catch let code as ExitCode {
            throw code
        } catch {
            throw ManagementClient.fault("not copied: \(error)")
        }
    }

    private func url() throws -> String {
        guard to.hasPrefix("env:") else { return to }
        guard let value = ProcessInfo.processInfo.environment[String(to.dropFirst(4))] else {
            throw StartFailure("the variable \(to.dropFirst(4)) is not set")
        }
        return value
    }

    private func copy(
        _ source: any AdministeredStore, _ settings: StoreSettings, to target: StoreSettings
    ) async throws {
        if let until = try await source.lease(Sweeper.lease), SystemClock.wallTime() < until, !settings.isLocked {
            throw StartFailure(
                "a broker has been at work on \(settings.place): stop it, and try again after \(until.rfc3339)")
        }
        _ = try await target.migrate()
        let destination = try await target.openForCopy()
        do {
            for kind in StoredKind.allCases where kind != .seals && kind != .leases {
                guard try await destination.rows(of: kind, after: nil, limit: 1) == StoredPage(rows: [], next: nil)
                else { throw StartFailure("\(target.place) is not empty (\(kind.rawValue))") }
            }
            let unreadable = try await copyRows(source, to: destination)
            await destination.close()
            guard unreadable == 0 else {
                StandardError.write("\(unreadable) rows are damaged or of a newer version, and stay behind")
                throw ExitCode(1)
            }
        } catch {
            await destination.close()
            throw error
        }
    }

    /// Copies all rows, and returns the number of unreadable rows that were left out.
    private func copyRows(_ source: any AdministeredStore, to destination: any AdministeredStore) async throws -> Int {
        let counts = try await source.rowCounts()
        var bar = ProgressBar(total: counts.values.reduce(0, +))
        var unreadable = 0
        for kind in StoredKind.allCases {
            var cursor: [UInt8]?
            repeat {
                let page = try await source.rows(of: kind, after: cursor, limit: Self.batch)
                try await destination.insert(page.rows)
                unreadable += page.unreadable
                bar.advance(page.rows.count + page.unreadable)
                cursor = page.next
            } while cursor != nil
        }
        bar.finish()
        print("copied: " + StoredKind.allCases.map { "\($0.rawValue) \(counts[$0] ?? 0)" }.joined(separator: ", "))
        return unreadable
    }
}
