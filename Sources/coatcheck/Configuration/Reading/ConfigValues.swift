import Broker
import Yams

/// Every setting of a file by its path, with what `{env: …}` and `{file: …}` stand for: what two configurations are
/// compared by.
///
/// The same meaning in other words (`30d` and `720h`) counts as another value.
struct ConfigValues: Sendable {
    /// More than any file has that was not made to be large.
    private static let maximum = 100_000

    private var values: [String: Secret] = [:]

    /// Walks a file's mappings; `resolved` has what references stand for, by the path of the reference.
    init(_ root: Node, resolved: [String: Secret]) { add(root, "", resolved) }

    private mutating func add(_ node: Node, _ path: String, _ resolved: [String: Secret]) {
        guard values.count < Self.maximum else { return }
        if let value = resolved[path] {
            values[path] = value
            return
        }
        switch node {
        case .scalar(let scalar):
            // Two keys that look alike when they are printed are compared together.
            values[path] = Secret((values[path].map { $0.reveal() + "\n" } ?? "") + scalar.string)
        case .sequence(let items):
            for (index, item) in items.enumerated() { add(item, "\(path)[\(index)]", resolved) }
        case .mapping(let mapping):
            for (key, value) in mapping {
                let name = ConfigContext.printable(key.scalar?.string ?? "?")
                add(value, path.isEmpty ? name : "\(path).\(name)", resolved)
            }
        default: break
        }
    }

    /// Returns the paths whose values differ, or that only one of the two has, in order.
    func changes(since other: ConfigValues) -> [String] {
        Set(values.keys).union(other.values.keys).filter { !isSame($0, as: other) }.sorted()
    }

    /// Returns whether a path is another one, or lies below it.
    static func lies(_ path: String, under other: String) -> Bool {
        guard path.hasPrefix(other) else { return false }
        let next = path.dropFirst(other.count).first
        return next == nil || next == "." || next == "["
    }

    private func isSame(_ path: String, as other: ConfigValues) -> Bool {
        guard let value = values[path], let another = other.values[path] else { return false }
        return value.bytes() == another.bytes()
    }

    /// Returns a digest of each setting under a salt, by path.
    func digests(_ salt: [UInt8], _ digest: ([UInt8]) -> Digest) -> [String: Digest] {
        var digests: [String: Digest] = [:]
        for (path, value) in values { digests[path] = digest(salt + [0] + Array(path.utf8) + [0] + value.bytes()) }
        return digests
    }
}
