import Broker
import Yams

/// One mapping of the file, read by key.
///
/// Each read registers its key and reports its faults.
///
/// A faulty value gives the default, so that one run finds every problem. At the end, the context returns all problems.
final class ConfigSection {
    let context: ConfigContext
    let path: String
    /// The path with `*` for names, as in the catalogue of keys.
    let pattern: String
    let line: Int?
    private var entries: [String: (node: Node, line: Int?)] = [:]
    private var order: [String] = []
    private var asked: Set<String> = []
    private var isAbandoned = false

    init(_ node: Node?, path: String, pattern: String, line: Int?, context: ConfigContext) {
        self.context = context
        self.path = path
        self.pattern = pattern
        self.line = node?.mark?.line ?? line
        context.register(self)
        switch node {
        case nil: break
        case .mapping(let mapping):
            for (key, value) in mapping {
                guard let name = key.scalar?.string else {
                    context.report("has a key that is not a word", path: path, line: key.mark?.line)
                    continue
                }
                entries[name] = (value, key.mark?.line)
                order.append(name)
            }
        case .some(let other):
            if !Self.isNull(other) { context.report("has to be a mapping of keys", path: path, line: other.mark?.line) }
        }
    }

    /// Returns whether the file has the key.
    func has(_ key: String) -> Bool { entries[key] != nil }

    /// The keys of the file, in its order.
    var keys: [String] { order }

    /// The line of a key, or else of the section.
    func line(of key: String) -> Int? { entries[key]?.line ?? line }

    /// Returns the path of a key, or of the key `below` inside that key; nil if the file lacks this path.
    ///
    /// The call does not count as reading the key.
    func place(of key: String, _ below: String? = nil) -> (path: String, line: Int?)? {
        guard let entry = entries[key] else { return nil }
        guard let below else { return (child(key), entry.line ?? line) }
        let found = entry.node.mapping?.first { $0.key.scalar?.string == below }
        return found.map { ("\(child(key)).\(below)", $0.key.mark?.line ?? entry.line ?? line) }
    }

    func report(_ key: String?, _ message: String, severity: ConfigProblem.Severity = .error) {
        context.report(message, path: key.map(child) ?? path, line: key.map(line(of:)) ?? line, severity: severity)
    }

    func warn(_ key: String?, _ message: String) { report(key, message, severity: .warning) }

    /// Keeps the context from reporting the keys of this section as unknown, for a section whose kind is unclear.
    func abandon() { isAbandoned = true }

    /// Reports each key that the decoders left unread, and returns the known keys that were probably intended.
    func reportUnknownKeys() -> [String] {
        guard !isAbandoned else { return [] }
        var meant: [String] = []
        for name in order where !asked.contains(name) {
            // Prefer the nearest key that the file lacks, because a misspelt key is probably the only attempt to write it.
            let near =
                Spelling.nearest(to: name, among: asked.filter { !has($0) }) ?? Spelling.nearest(to: name, among: asked)
            let known = pattern.isEmpty ? name : "\(pattern).\(name)"
            if context.knownKeys.contains(known) {
                report(name, "does not apply here" + Spelling.hint(near))
            } else if let elsewhere = KeyPlaces.hint(for: name, in: pattern) {
                report(name, "is not a key here" + elsewhere)
                continue
            } else {
                report(name, "is not a key of this file" + Spelling.hint(near))
            }
            if let near { meant.append(near) }
        }
        return meant
    }

    /// Returns the message for a missing required key.
    static func need(_ key: String) -> String { "needs `\(key)`" }

    // MARK: Nodes

    /// Returns the node of a key; nil if it is absent or null.
    func node(_ key: String) -> (node: Node, line: Int?)? {
        asked.insert(key)
        context.know(pattern.isEmpty ? key : "\(pattern).\(key)")
        guard let entry = entries[key] else { return nil }
        if Self.isNull(entry.node) {
            report(key, "has no value")
            return nil
        }
        return entry
    }

    /// Returns the mapping under a key.
    ///
    /// If the key is absent, an empty mapping is returned, which produces the defaults.
    func section(_ key: String) -> ConfigSection {
        let entry = node(key)
        return ConfigSection(
            entry?.node, path: child(key), pattern: pattern.isEmpty ? key : "\(pattern).\(key)",
            line: entry?.line ?? line, context: context)
    }

    /// Returns the mapping under a key; nil if it is absent.
    func optionalSection(_ key: String) -> ConfigSection? {
        guard has(key) || context.isCataloguing else {
            _ = node(key)
            return nil
        }
        return section(key)
    }

    /// Returns the mapping under a key as named sections, in the file's order.
    func named(_ key: String) -> [(name: String, section: ConfigSection)] {
        let parent = section(key)
        if context.isCataloguing, parent.order.isEmpty {
            let empty = ConfigSection(
                nil, path: parent.child("*"), pattern: "\(parent.pattern).*", line: nil, context: context)
            return [("*", empty)]
        }
        parent.isAbandoned = true
        return parent.order.compactMap { name in
            guard let entry = parent.entries[name] else { return nil }
            return (
                name,
                ConfigSection(
                    entry.node, path: parent.child(ConfigContext.printable(name)), pattern: "\(parent.pattern).*",
                    line: entry.line, context: context)
            )
        }
    }

    /// Returns the list of mappings under a key.
    func list(_ key: String) -> [ConfigSection] {
        let pattern = self.pattern.isEmpty ? key : "\(self.pattern).\(key)"
        guard let entry = node(key) else {
            guard context.isCataloguing else { return [] }
            return [ConfigSection(nil, path: child(key), pattern: "\(pattern)[]", line: nil, context: context)]
        }
        guard let items = entry.node.sequence else {
            report(key, "has to be a list")
            return []
        }
        return items.enumerated().map { index, item in
            ConfigSection(
                item, path: "\(child(key))[\(index)]", pattern: "\(pattern)[]", line: entry.line, context: context)
        }
    }

    /// Returns the scalar of a key; nil if it is absent or not a scalar.
    func scalar(_ key: String) -> ConfigScalar? {
        guard let entry = node(key) else { return nil }
        guard let text = entry.node.scalar?.string else {
            report(key, "has to be a single value")
            return nil
        }
        return ConfigScalar(text: text, line: entry.node.mark?.line ?? entry.line)
    }

    /// Returns whether the value of a key is written in the file itself.
    func isScalar(_ key: String) -> Bool { entries[key]?.node.scalar != nil }

    /// Returns the scalars of a list.
    ///
    /// A single scalar counts as a list of one.
    func scalars(_ key: String) -> [ConfigScalar] {
        guard let entry = node(key) else { return [] }
        if let text = entry.node.scalar?.string { return [ConfigScalar(text: text, line: entry.line)] }
        guard let items = entry.node.sequence else {
            report(key, "has to be a list of values")
            return []
        }
        return items.compactMap { item in
            guard let text = item.scalar?.string, !Self.isNull(item) else {
                context.report("has to hold single values", path: child(key), line: item.mark?.line ?? entry.line)
                return nil
            }
            return ConfigScalar(text: text, line: item.mark?.line ?? entry.line)
        }
    }

    /// Returns the entries of a mapping of scalars, in the file's order.
    func pairs(_ key: String) -> [(name: String, value: ConfigScalar)] {
        guard let entry = node(key) else { return [] }
        guard let mapping = entry.node.mapping else {
            report(key, "has to be a mapping of names to values")
            return []
        }
        return mapping.compactMap { name, value in
            guard let name = name.scalar?.string, let text = value.scalar?.string, !Self.isNull(value) else {
                context.report("has to hold single values", path: child(key), line: value.mark?.line ?? entry.line)
                return nil
            }
            let style = value.scalar?.style ?? .plain
            return (
                name,
                ConfigScalar(
                    text: text, line: value.mark?.line ?? entry.line, isPlain: style == .plain || style == .any)
            )
        }
    }

    func child(_ key: String) -> String {
        path.isEmpty ? ConfigContext.printable(key) : "\(path).\(ConfigContext.printable(key))"
    }

    private static func isNull(_ node: Node) -> Bool {
        guard let scalar = node.scalar, scalar.style == .plain || scalar.style == .any else { return false }
        return ["", "~", "null", "Null", "NULL"].contains(scalar.string)
    }
}
