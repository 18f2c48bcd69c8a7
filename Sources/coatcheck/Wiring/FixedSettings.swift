import Broker
import BrokerHTTP

/// The settings that a running broker cannot change, because sockets, files and keys are open, and cookies and redirect URIs
/// are in use.
enum FixedSettings {
    /// The paths of the settings that need a restart.
    ///
    /// Each path also stands for all paths below it.
    private static let paths = [
        "server.listen", "server.backend_listen", "server.public_url", "server.drain_delay",
        "server.shutdown_timeout", "management.listen", "store", "keys", "session.cookie", "session.cache",
        "tracing.otlp",
    ]

    /// Returns whether a change of a setting needs a restart.
    static func needsRestart(_ path: String) -> Bool { paths.contains { ConfigValues.lies(path, under: $0) } }

    /// Returns the paths of the fixed settings that differ.
    ///
    /// If possible, the check compares the meanings of two values instead of their spelling.
    static func changes(_ old: Configuration, _ new: Configuration) -> [String] {
        let checks: [(path: String, isSame: Bool)] = [
            ("server.listen", old.server.listen == new.server.listen),
            ("server.backend_listen", old.server.backendListen == new.server.backendListen),
            ("server.public_url", old.server.publicURL.text == new.server.publicURL.text),
            ("server.tls", (old.server.tls == nil) == (new.server.tls == nil)),
            ("server.drain_delay", old.server.drainDelay == new.server.drainDelay),
            ("server.shutdown_timeout", old.server.shutdownTimeout == new.server.shutdownTimeout),
            ("management.listen", old.management.listen == new.management.listen),
            ("session.cookie.name", old.session.cookieName == new.session.cookieName),
            ("session.cookie.same_site", old.session.sameSite == new.session.sameSite),
            ("session.cache", old.session.cache == new.session.cache),
            ("tracing.otlp", old.tracing?.url == new.tracing?.url),
        ]
        let stored = new.values.changes(since: old.values).filter { path in
            ["store", "keys"].contains { ConfigValues.lies(path, under: $0) }
        }
        return checks.filter { !$0.isSame }.map(\.path) + stored
    }

    /// Compares the digests of two configurations' settings.
    static func compare(
        _ running: [String: Digest], with other: [String: Digest]
    ) -> [ManagementComparison.Item] {
        // A certificate may be replaced, but TLS cannot be switched on or off.
        func hasTLS(_ digests: [String: Digest]) -> Bool {
            digests.keys.contains { ConfigValues.lies($0, under: "server.tls") }
        }
        let tlsCameOrWent = hasTLS(running) != hasTLS(other)
        return Set(running.keys).union(other.keys).sorted().map { path in
            let isSame = running[path].map { $0 == other[path] } ?? false
            let isFixed = needsRestart(path) || (tlsCameOrWent && ConfigValues.lies(path, under: "server.tls"))
            return ManagementComparison.Item(path: path, isChanged: !isSame, needsRestart: isFixed)
        }
    }
}
