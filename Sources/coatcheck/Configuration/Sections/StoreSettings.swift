import BrokerStore
import Foundation

/// The kind and the address of the store (`store`).
enum StoreSettings: Sendable {
    /// An SQLite database: the path of its file, and of the endings file if there is one, both absolute.
    case sqlite(path: String, endings: String?)
    case postgresql(PostgreSQLPlace)

    /// The pooler between the broker and PostgreSQL.
    private enum Pooler: String, CaseIterable {
        case none, transaction
    }

    /// The kind of store that a URL names.
    private enum Named { case file(SQLiteAddress), server }

    /// Returns the store that a URL names; nil if the URL names no store.
    private static func named(by url: String) -> Named? {
        if url.hasPrefix("postgresql:") || url.hasPrefix("postgres:") { return .server }
        return SQLiteAddress(url).map { .file($0) }
    }

    private static let forms =
        "has to be `sqlite:` and the path of a file, or `postgresql://…`"
    private static let last = ". The existing database is opened until 0.3.0"

    init?(_ section: ConfigSection) {
        let url = section.referredText("url", limit: 4096)
        let named = Self.named(by: url ?? "sqlite:coatcheck.db")
        if let url, case .server = named {
            self.init(postgresql: url, section)
            return
        }
        if section.context.isCataloguing { Self.know(section) }
        if section.has("url"), url == nil {
            // The engine in the URL decides which other keys are allowed. The URL is unreadable, so leave these keys unchecked.
            section.abandon()
            return nil
        }
        for key in ["pooler", "listen_url", "connections"] where section.has(key) {
            _ = section.node(key)
            section.report(key, "is for PostgreSQL alone")
        }
        guard case .file(let address) = named else {
            section.report("url", Self.forms)
            return nil
        }
        let path = section.context.sources.resolve(address.path)
        if let fault = address.misspelling {
            let exists = FileManager.default.fileExists(atPath: path)
            section.report("url", fault + (exists ? Self.last : ""), severity: exists ? .warning : .error)
        } else if address.isRelativeElsewhere, !FileManager.default.fileExists(atPath: String(Self.folder(path)) + "/")
        {
            section.warn(
                "url",
                "is absolute, and its folder is missing; a relative path follows `sqlite:` directly")
        }
        let endings = section.text("endings_file", limit: 4096).map(section.context.sources.resolve)
        if let endings {
            if ["", "-wal", ".lock", ".reserve"].contains(where: { path + $0 == endings }) {
                section.report("endings_file", "is the database's own file")
            } else if Self.folder(endings) == Self.folder(path) {
                section.warn(
                    "endings_file", "is next to the database, so both would be lost together; put it on another volume")
            }
        }
        self = .sqlite(path: path, endings: endings)
    }

    /// Reads a URL from the command line.
    init(url: String) throws(StoreOpenFailure) {
        switch Self.named(by: url) {
        case .file(let address):
            if let fault = address.misspelling, !FileManager.default.fileExists(atPath: address.path) {
                throw .address("it " + fault)
            }
            self = .sqlite(path: address.path, endings: nil)
        case .server:
            let connection = try ConnectionSettings(
                url: url, variable: { ProcessInfo.processInfo.environment[$0] },
                exists: { FileManager.default.fileExists(atPath: $0) })
            self = .postgresql(
                PostgreSQLPlace(
                    connection: connection, listening: nil, connections: PostgreSQLStore.allowedConnections.lowerBound))
        case nil: throw .address("it " + Self.forms)
        }
    }

    private static func folder(_ path: String) -> Substring {
        path.lastIndex(of: "/").map { path[..<$0] } ?? ""
    }

    private init?(postgresql url: String, _ section: ConfigSection) {
        if section.has("endings_file") {
            _ = section.node("endings_file")
            section.warn("endings_file", "is not used, because PostgreSQL has its own point-in-time recovery")
        }
        let isPooled = section.choice("pooler", as: Pooler.self) == .transaction
        let connections = section.integer(
            "connections", default: PostgreSQLStore.standardConnections, in: PostgreSQLStore.allowedConnections)
        let main = Self.connection(url, "url", isPooled: isPooled, section)
        var listening = isPooled ? nil : main
        if let other = section.referredText("listen_url", limit: 4096) {
            listening = Self.connection(other, "listen_url", isPooled: false, section)
            guard listening != nil else { return nil }
        } else if isPooled {
            section.warn(
                "pooler", "needs `listen_url` for notices from other replicas; without it, sessions are not cached")
        }
        guard let main else { return nil }
        self = .postgresql(PostgreSQLPlace(connection: main, listening: listening, connections: connections))
    }

    /// Registers the keys that exist only for PostgreSQL, so that the catalogue of keys contains them.
    private static func know(_ section: ConfigSection) {
        for key in ["pooler", "listen_url", "connections"] { _ = section.node(key) }
    }

    private static func connection(
        _ url: String, _ key: String, isPooled: Bool, _ section: ConfigSection
    ) -> ConnectionSettings? {
        do throws(StoreOpenFailure) {
            let settings = try ConnectionSettings(
                url: url, isPooled: isPooled, variable: section.context.sources.environment,
                exists: { FileManager.default.fileExists(atPath: $0) })
            if settings.hasPassword, section.isScalar(key) {
                section.context.noteInlineSecret(path: section.child(key), line: section.line(of: key))
            }
            return settings
        } catch {
            section.report(key, "\(error)")
            return nil
        }
    }
}
