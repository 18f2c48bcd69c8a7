import Broker
import Yams

/// Collects the results of reading the file: its problems, and the keys that the decoders have read.
///
/// Each section registers itself here, and `finish` reports all keys that no decoder has read. Therefore the decoders need no
/// list of all keys for finding misspelt ones.
final class ConfigContext {
    let sources: ConfigSources
    private(set) var problems: [ConfigProblem] = []
    /// The lines of the file's keys and list entries.
    private(set) var lines = ConfigLines()
    /// Every key that a decoder has read, as a pattern with `*` for names (`providers.*.issuer`).
    private(set) var knownKeys: Set<String> = []
    /// Whether the decoders read an empty configuration to collect all keys.
    ///
    /// Lists and maps then count as if they had one entry.
    let isCataloguing: Bool
    /// The resolved values of `{env: …}` and `{file: …}`, by the path of their key.
    private(set) var resolved: [String: Secret] = [:]
    private var sections: [ConfigSection] = []
    private var inlineSecrets: [(path: String, line: Int?)] = []

    init(sources: ConfigSources, isCataloguing: Bool = false) {
        self.sources = sources
        self.isCataloguing = isCataloguing
    }

    func register(_ section: ConfigSection) { sections.append(section) }

    func know(_ pattern: String) { knownKeys.insert(pattern) }

    /// Reports a problem at a path.
    ///
    /// `line` is a line that the caller knows, for example the line of an entry in the list at the path. If the file has the
    /// path at a later line, this later line is used, because it is closer to the fault.
    func report(_ message: String, path: String, line: Int? = nil, severity: ConfigProblem.Severity = .error) {
        let nearest = [line, lines.line(of: path)].compactMap { $0 }.max()
        problems.append(ConfigProblem(line: nearest, path: path, message: message, severity: severity))
    }

    /// Returns whether an error was reported at a path, so that a caller can leave out further errors with the same cause.
    func isFaulty(_ path: String) -> Bool { problems.contains { $0.path == path && $0.severity == .error } }

    /// Stores the resolved value of a reference (`{env: …}` or `{file: …}`), by the path of its key.
    func note(_ value: Secret, for path: String) { resolved[path] = value }

    /// Notes a secret that is written in the file itself.
    func noteInlineSecret(path: String, line: Int?) { inlineSecrets.append((path, line)) }

    /// Warns of secrets that are written in the file itself, which are for development only.
    func warnOfInlineSecrets() {
        for (path, line) in inlineSecrets {
            report(
                "is written into the file; outside development use `{env: NAME}` or `{file: path}`", path: path,
                line: line, severity: .warning)
        }
    }

    /// Reports each key that the decoders left unread, and returns all problems in the file's order.
    func finish() -> [ConfigProblem] {
        for section in sections {
            // If a misspelt key was probably meant as a required key, drop the report that the required key is missing.
            for key in section.reportUnknownKeys() {
                problems.removeAll { $0.path == section.path && $0.message == ConfigSection.need(key) }
            }
        }
        sections = []
        return Set(problems).sorted()
    }

    /// Parses YAML into its root node, or reports the fault.
    ///
    /// The library's message quotes the faulty line, which may contain a secret. Only the position and the kind of fault are
    /// kept.
    func compose(_ text: String) -> Node? {
        do {
            guard let node = try Yams.compose(yaml: text) else {
                report("the file has no settings, only blank lines and comments", path: "", line: nil)
                return nil
            }
            let root = try ExpandedNodes.expanded(node)
            lines = ConfigLines(root)
            return root
        } catch let fault as ExpandedNodes.Fault {
            report(fault.message, path: "", line: fault.line)
        } catch YamlError.scanner(_, let problem, let mark, _) {
            report("is not YAML: \(problem)", path: "", line: mark.line)
        } catch YamlError.parser(_, let problem, let mark, _) {
            report("is not YAML: \(problem)", path: "", line: mark.line)
        } catch YamlError.composer(_, let problem, let mark, _) {
            report("is not YAML: \(problem)", path: "", line: mark.line)
        } catch YamlError.duplicatedKeysInMapping(let keys, let context) {
            let names = keys.map { Self.printable($0) }.joined(separator: ", ")
            report(
                "names a key twice: \(names)" + (keys == ["<<"] ? " (it takes a list: `<<: [*one, *two]`)" : ""),
                path: "",
                line: keys.first.flatMap { Self.secondLine(of: $0, in: text, from: context.mark.line) }
                    ?? context.mark.line)
        } catch {
            report("is not YAML", path: "", line: nil)
        }
        return nil
    }

    /// Returns the line at which a key occurs for the second time at the same depth.
    private static func secondLine(of key: String, in text: String, from line: Int) -> Int? {
        var indent: Int?
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().dropFirst(
            line - 1)
        {
            let rest = line.drop { $0 == " " }
            guard ["\(key):", "\"\(key)\":", "'\(key)':"].contains(where: { rest.hasPrefix($0) }) else { continue }
            let depth = line.count - rest.count
            if indent == depth { return index + 1 }
            if indent == nil { indent = depth }
        }
        return nil
    }

    /// Returns a key in a form for messages: shortened, and without control characters.
    static func printable(_ text: String, _ limit: Int = 64) -> String {
        String(text.unicodeScalars.prefix(limit).map { (0x20...0x7E).contains($0.value) ? Character($0) : "?" })
    }
}
