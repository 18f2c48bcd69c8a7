import Foundation

/// Where `{env: …}` and `{file: …}` are looked up: closures, so that tests own them.
struct ConfigSources: Sendable {
    /// Returns an environment variable's value, or nil.
    var environment: @Sendable (String) -> String?
    /// Reads a file, at most 1 MiB; nil when it cannot be read.
    var readFile: @Sendable (String) -> [UInt8]?
    /// Whether others than its owner may read the file.
    var isOpenToOthers: @Sendable (String) -> Bool
    /// What relative paths are relative to: the folder of the configuration file.
    var directory: String

    /// The process's environment and file system.
    static func process(directory: String) -> ConfigSources {
        ConfigSources(
            environment: { ProcessInfo.processInfo.environment[$0] },
            readFile: { BoundedFile.read($0, limit: 1 << 20) },
            isOpenToOthers: { FileMode.isOpenToOthers($0) },
            directory: directory)
    }

    /// Returns a path of the file as the process has to open it.
    func resolve(_ path: String) -> String {
        path.hasPrefix("/") || directory.isEmpty ? path : "\(directory)/\(path)"
    }
}
