import Yams

/// Expands a file's merge keys (`<<`, yaml.org/type/merge) and aliases.
///
/// A mapping's own key overrides a merged key. In a list of merged mappings, an earlier mapping overrides a later mapping. Each
/// node keeps its line.
struct ExpandedNodes {
    /// A fault in a merge key or alias, with its line.
    struct Fault: Error {
        let line: Int?
        let message: String
    }

    /// The largest number of values in a file after the expansion.
    ///
    /// Each use of an alias counts with all values of the alias.
    static let maximum = 10_000
    /// The deepest nesting of a file.
    private static let levels = 64

    private var count = 0

    /// Returns the expanded root without its `x-…` keys, which hold repeated parts.
    static func expanded(_ root: Node) throws(Fault) -> Node {
        var walk = ExpandedNodes()
        let root = try walk.expand(root, levels)
        guard case .mapping(let mapping) = root else { return root }
        let settings = mapping.filter { key, _ in key.scalar?.string.hasPrefix("x-") != true }
        return Self.mapping(settings.map { ($0.key, $0.value) }, like: mapping)
    }

    private mutating func expand(_ node: Node, _ levels: Int) throws(Fault) -> Node {
        count += 1
        guard count <= Self.maximum else {
            throw Fault(
                line: node.mark?.line,
                message: "the file has more than 10,000 values, repeated ones included")
        }
        guard levels > 0 else {
            throw Fault(line: node.mark?.line, message: "the file has more than \(Self.levels) levels")
        }
        switch node {
        case .mapping(let mapping): return try expand(mapping, levels)
        case .sequence(let sequence):
            var items: [Node] = []
            for item in sequence { items.append(try expand(item, levels - 1)) }
            return .sequence(.init(items, sequence.tag, sequence.style, sequence.mark))
        default: return node
        }
    }

    private mutating func expand(_ mapping: Node.Mapping, _ levels: Int) throws(Fault) -> Node {
        var pairs: [(Node, Node)] = []
        var merged: [Node.Mapping] = []
        for (key, value) in mapping {
            let value = try expand(value, levels - 1)
            guard Self.isMerge(key) else {
                pairs.append((key, value))
                continue
            }
            merged += try Self.sources(value, line: key.mark?.line)
        }
        var names = Set(pairs.compactMap { $0.0.scalar?.string })
        for source in merged {
            for (key, value) in source {
                if let name = key.scalar?.string, !names.insert(name).inserted { continue }
                pairs.append((key, value))
            }
        }
        return Self.mapping(pairs, like: mapping)
    }

    /// Whether a key is the merge key.
    ///
    /// In quotes, `<<` is an ordinary name.
    private static func isMerge(_ key: Node) -> Bool {
        guard let scalar = key.scalar, scalar.string == "<<" else { return false }
        return scalar.style == .plain || scalar.style == .any
    }

    /// Returns the mappings in a merge key's value.
    private static func sources(_ value: Node, line: Int?) throws(Fault) -> [Node.Mapping] {
        if let mapping = value.mapping { return [mapping] }
        if let items = value.sequence {
            let mappings = items.compactMap(\.mapping)
            if mappings.count == items.count { return mappings }
        }
        throw Fault(line: line, message: "`<<` takes a mapping, or a list of mappings")
    }

    private static func mapping(_ pairs: [(Node, Node)], like mapping: Node.Mapping) -> Node {
        .mapping(.init(pairs, mapping.tag, mapping.style, mapping.mark))
    }
}
