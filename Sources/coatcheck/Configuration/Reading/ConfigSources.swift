import Broker
import Foundation

/// The sources of `{env: …}` and `{file: …}`: closures, so that tests own them.
struct ConfigSources: Sendable {
    /// Returns an environment variable's value, or nil.
    var environment: @Sendable (String) -> String?
    /// Reads a file, at most 1 MiB.
    var readFile: @Sendable (String) throws(FileFault) -> [UInt8]
    /// Whether others than its owner may read the file.
    var isOpenToOthers: @Sendable (String) -> Bool
    /// The time, for what runs out.
    var now: @Sendable () -> WallTime = { SystemClock.wallTime() }
    /// The folder that relative paths are relative to: that of the configuration file.
    var directory: String

    /// The process's environment and file system.
    static func process(directory: String) -> ConfigSources {
        ConfigSources(
            environment: { ProcessInfo.processInfo.environment[$0] },
            readFile: { path throws(FileFault) in try BoundedFile.load(path, limit: 1 << 20) },
            isOpenToOthers: { FileMode.isOpenToOthers($0) },
            directory: directory)
    }

    /// Reads a file; reports at a key why it cannot be used, and what would help.
    func readFile(_ path: String, for key: String, of section: ConfigSection, _ help: String = "") -> [UInt8]? {
        do throws(FileFault) { return try readFile(path) } catch {
            section.report(
                key, "names a file that cannot be read: \(ConfigContext.printable(path, 255)) \(error)\(help)")
            return nil
        }
    }

    /// Returns a path of the file as the process has to open it.
    func resolve(_ path: String) -> String {
        path.hasPrefix("/") || directory.isEmpty ? path : "\(directory)/\(path)"
    }
}
