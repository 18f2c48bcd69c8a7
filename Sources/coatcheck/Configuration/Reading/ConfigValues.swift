import Broker
import Yams

/// Every setting of a file by its path, with resolved references, for comparing two configurations.
///
/// Another spelling of the same value (`30d` and `720h`) counts as different. An empty list or mapping counts as a value,
/// because it may mean something else than an absent key.
struct ConfigValues: Sendable {
    /// A value at the end of a path.
    private struct Value: Sendable {
        /// The form that a value has in the file.
        enum Form: UInt8 {
            case plain, quoted, emptyList, emptyMapping
        }

        let form: Form
        let text: Secret

        /// The bytes that identify the value.
        ///
        /// UTF-8 text never contains 0xFF, so the bytes of a plain value differ from the bytes of all other forms.
        var bytes: [UInt8] { form == .plain ? text.bytes() : [0xFF, form.rawValue] + text.bytes() }
    }

    /// The largest number of values that are collected.
    ///
    /// Only artificial files exceed this.
    private static let maximum = 100_000

    private var values: [String: Value] = [:]

    /// Collects the values of a file.
    ///
    /// `resolved` has the values of references, by the reference's path.
    init(_ root: Node, resolved: [String: Secret]) { add(root, "", resolved) }

    private mutating func add(_ node: Node, _ path: String, _ resolved: [String: Secret]) {
        guard values.count < Self.maximum else { return }
        if let value = resolved[path] {
            values[path] = Value(form: .plain, text: value)
            return
        }
        switch node {
        case .scalar(let scalar):
            // Two different keys can have the same path after their unprintable characters are replaced. Join their values, so
            // that both are compared.
            let text = (values[path].map { $0.text.reveal() + "\n" } ?? "") + scalar.string
            let isQuoted = scalar.style != .plain && scalar.style != .any && Self.hasPlainMeaning(scalar.string)
            values[path] = Value(form: isQuoted ? .quoted : .plain, text: Secret(text))
        case .sequence(let items):
            if items.isEmpty { values[path] = Value(form: .emptyList, text: Secret("")) }
            for (index, item) in items.enumerated() { add(item, "\(path)[\(index)]", resolved) }
        case .mapping(let mapping):
            if mapping.isEmpty { values[path] = Value(form: .emptyMapping, text: Secret("")) }
            for (key, value) in mapping {
                let name = ConfigContext.printable(key.scalar?.string ?? "?")
                add(value, path.isEmpty ? name : "\(path).\(name)", resolved)
            }
        default: break
        }
    }

    /// Returns whether a text would have another meaning without quotes: null, a truth value or a number.
    ///
    /// Zephr's attributes distinguish texts from null, truth values and numbers.
    private static func hasPlainMeaning(_ text: String) -> Bool {
        ["", "~", "null", "true", "false"].contains(text.lowercased())
            || text.first.map { $0 == "-" || $0.isASCII && $0.isNumber } == true
    }

    /// Returns the sorted paths of the settings that differ between the two configurations, or that only one of them has.
    func changes(since other: ConfigValues) -> [String] {
        Set(values.keys).union(other.values.keys).filter { !isSame($0, as: other) }.sorted()
    }

    /// Returns whether the file has a setting.
    func has(_ path: String) -> Bool { values[path] != nil }

    /// Returns whether a path equals `other` or is below `other`.
    static func lies(_ path: String, under other: String) -> Bool {
        guard path.hasPrefix(other) else { return false }
        let next = path.dropFirst(other.count).first
        return next == nil || next == "." || next == "["
    }

    private func isSame(_ path: String, as other: ConfigValues) -> Bool {
        guard let value = values[path], let another = other.values[path] else { return false }
        return value.bytes == another.bytes
    }

    /// Returns the digest of each setting's path and value, with a salt, by path.
    func digests(_ salt: [UInt8], _ digest: ([UInt8]) -> Digest) -> [String: Digest] {
        var digests: [String: Digest] = [:]
        for (path, value) in values { digests[path] = digest(salt + [0] + Array(path.utf8) + [0] + value.bytes) }
        return digests
    }
}

/// Reads and writes sizes in the file's form: a number and `B`, `KiB`, `MiB` or `GiB`.
enum SizeText {
    private static let units: [(name: String, bytes: Int)] = [
        ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1),
    ]

    /// Returns the size in bytes; nil if the text is not a size.
    static func parse(_ text: String) -> Int? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text.dropFirst(digits.count).drop { $0 == " " }
        guard let number = Int(digits), let bytes = units.first(where: { $0.name == unit })?.bytes else { return nil }
        let (product, overflow) = number.multipliedReportingOverflow(by: bytes)
        return overflow ? nil : product
    }

    /// Writes a size in its largest exact unit.
    static func write(_ bytes: Int) -> String {
        guard let unit = units.first(where: { bytes != 0 && bytes % $0.bytes == 0 }) else { return "0B" }
        return "\(bytes / unit.bytes)\(unit.name)"
    }
}
