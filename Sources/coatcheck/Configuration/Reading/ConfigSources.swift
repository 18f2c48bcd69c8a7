import Broker
import Foundation

/// The sources of `{env: …}` and `{file: …}`, as closures that tests can replace.
struct ConfigSources: Sendable {
    /// Returns an environment variable's value; nil if it is unset.
    var environment: @Sendable (String) -> String?
    /// Reads a file of at most 1 MiB.
    var readFile: @Sendable (String) throws(FileFault) -> [UInt8]
    /// Whether a file is open to others, according to `FileMode.isOpenToOthers`.
    var isOpenToOthers: @Sendable (String) -> Bool
    /// The current time, for comparison with expiries.
    var now: @Sendable () -> WallTime = { SystemClock.wallTime() }
    /// The folder of the configuration file, for resolving relative paths.
    var directory: String

    /// The process's environment and file system.
    static func process(directory: String) -> ConfigSources {
        ConfigSources(
            environment: { ProcessInfo.processInfo.environment[$0] },
            readFile: { path throws(FileFault) in try BoundedFile.load(path, limit: 1 << 20) },
            isOpenToOthers: { FileMode.isOpenToOthers($0) },
            directory: directory)
    }

    /// Reads a file that a key names.
    ///
    /// If the file cannot be read, reports the reason at the key, followed by `help`.
    func readFile(_ path: String, for key: String, of section: ConfigSection, _ help: String = "") -> [UInt8]? {
        do throws(FileFault) { return try readFile(path) } catch {
            section.report(
                key, "names a file that cannot be read: \(ConfigContext.printable(path, 255)) \(error)\(help)")
            return nil
        }
    }

    /// Returns a path that the process can open; a relative path is resolved in the configuration file's folder.
    func resolve(_ path: String) -> String {
        path.hasPrefix("/") || directory.isEmpty ? path : "\(directory)/\(path)"
    }
}
