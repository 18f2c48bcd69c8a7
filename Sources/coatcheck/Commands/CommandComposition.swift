import Broker
import BrokerStore
import Foundation

/// The broker's parts for a command that works on the store itself.
///
/// Listeners and background work stay off.
enum CommandComposition {
    /// Connects the parts; closes the store if that fails.
    static func make(_ configuration: Configuration, _ store: any AdministeredStore) async throws -> Composition {
        let log = ProcessLog(
            level: .error, now: SystemClock.wallTime, emit: { FileHandle.standardError.write(Data($0)) })
        do throws(StartFailure) {
            let composition = try Composition.make(configuration, log: log, store: store)
            await composition.parts.clockCheck.begin()
            await composition.parts.ringWatch.look()
            return composition
        } catch {
            await store.close()
            throw error
        }
    }

    /// Waits for the work that was begun, and closes the store.
    static func close(_ composition: Composition) async {
        await composition.parts.detached.drained()
        await composition.close()
    }
}

extension Configuration {
    /// Opens the store for a command that ends sessions.
    ///
    /// The schema must be up to date. The endings reach the endings file, and the replicas on PostgreSQL.
    func openForEnding() async throws(StoreOpenFailure) -> any AdministeredStore {
        switch store {
        case .sqlite(let path, let endings):
            try await SQLiteStore.open(
                path: path, migrating: false, reserve: 0,
                endings: endings.map {
                    EndingsPlace(path: $0, longestLifetime: longestLifetime, now: SystemClock.wallTime())
                })
        case .postgresql(let place):
            try await PostgreSQLStore.open(
                place.connection, listening: nil, connections: PostgreSQLStore.allowedConnections.lowerBound,
                migrating: false)
        }
    }
}

extension BrokerProblem {
    /// The problem in words for an operator.
    var words: String { [code.rawValue, detail ?? privateDetail].compactMap { $0 }.joined(separator: ": ") }
}
