import Yams

/// The lines of a file's keys and list entries, by path.
struct ConfigLines: Sendable {
    /// The largest number of paths that are collected.
    ///
    /// Only artificial files exceed this number, for example by repeated aliases.
    private static let maximum = 100_000

    private var lines: [String: Int] = [:]

    /// Creates an empty collection.
    init() {}

    /// Collects the lines of a file's mappings and lists.
    init(_ root: Node) { add(root, "") }

    private mutating func add(_ node: Node, _ path: String) {
        guard lines.count < Self.maximum else { return }
        switch node {
        case .mapping(let mapping):
            for (key, value) in mapping {
                let name = ConfigContext.printable(key.scalar?.string ?? "?")
                add(value, path.isEmpty ? name : "\(path).\(name)", key.mark?.line)
            }
        case .sequence(let items):
            for (index, item) in items.enumerated() { add(item, "\(path)[\(index)]", item.mark?.line) }
        default: break
        }
    }

    private mutating func add(_ node: Node, _ path: String, _ line: Int?) {
        if lines[path] == nil { lines[path] = line }
        add(node, path)
    }

    /// Returns whether the file has a path.
    func has(_ path: String) -> Bool { lines[path] != nil }

    /// Returns the line of a path, or of its nearest ancestor in the file.
    func line(of path: String) -> Int? {
        var path = path[...]
        while !path.isEmpty {
            if let line = lines[String(path)] { return line }
            guard let end = path.lastIndex(where: { $0 == "." || $0 == "[" }) else { return nil }
            path = path[..<end]
        }
        return nil
    }
}
