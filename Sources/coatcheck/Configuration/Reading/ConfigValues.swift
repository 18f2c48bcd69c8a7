import Broker
import Yams

/// Every setting of a file by its path, with what `{env: …}` and `{file: …}` stand for: what two configurations are
/// compared by.
///
/// The same meaning in other words (`30d` and `720h`) counts as another value. An empty list or mapping is a value, too: it may
/// mean something else than no key at all.
struct ConfigValues: Sendable {
    /// A value at the end of a path.
    private struct Value: Sendable {
        /// The form that a value has in the file.
        enum Form: UInt8 {
            case plain, quoted, emptyList, emptyMapping
        }

        let form: Form
        let text: Secret

        /// The bytes that tell the value from every other.
        ///
        /// 0xFF is in no UTF-8 text, so a form cannot be written as a text.
        var bytes: [UInt8] { form == .plain ? text.bytes() : [0xFF, form.rawValue] + text.bytes() }
    }

    /// More than any file has that was not made to be large.
    private static let maximum = 100_000

    private var values: [String: Value] = [:]

    /// Walks a file's mappings; `resolved` has what references stand for, by the path of the reference.
    init(_ root: Node, resolved: [String: Secret]) { add(root, "", resolved) }

    private mutating func add(_ node: Node, _ path: String, _ resolved: [String: Secret]) {
        guard values.count < Self.maximum else { return }
        if let value = resolved[path] {
            values[path] = Value(form: .plain, text: value)
            return
        }
        switch node {
        case .scalar(let scalar):
            // Two keys that look alike when they are printed are compared together.
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

    /// Returns whether a text without quotes could be something else than that text: null, a truth value or a number, which
    /// Zephr's attributes tell apart.
    private static func hasPlainMeaning(_ text: String) -> Bool {
        ["", "~", "null", "true", "false"].contains(text.lowercased())
            || text.first.map { $0 == "-" || $0.isASCII && $0.isNumber } == true
    }

    /// Returns the paths whose values differ, or that only one of the two has, in order.
    func changes(since other: ConfigValues) -> [String] {
        Set(values.keys).union(other.values.keys).filter { !isSame($0, as: other) }.sorted()
    }

    /// Returns whether the file has a setting.
    func has(_ path: String) -> Bool { values[path] != nil }

    /// Returns whether a path is another one, or lies below it.
    static func lies(_ path: String, under other: String) -> Bool {
        guard path.hasPrefix(other) else { return false }
        let next = path.dropFirst(other.count).first
        return next == nil || next == "." || next == "["
    }

    private func isSame(_ path: String, as other: ConfigValues) -> Bool {
        guard let value = values[path], let another = other.values[path] else { return false }
        return value.bytes == another.bytes
    }

    /// Returns a digest of each setting under a salt, by path.
    func digests(_ salt: [UInt8], _ digest: ([UInt8]) -> Digest) -> [String: Digest] {
        var digests: [String: Digest] = [:]
        for (path, value) in values { digests[path] = digest(salt + [0] + Array(path.utf8) + [0] + value.bytes) }
        return digests
    }
}

/// A scalar of the file with its place.
///
/// YAML's own typing (`off` as a boolean, `1e3` as a number) is passed over: what is written is what counts.
struct ConfigScalar: Sendable {
    let text: String
    let line: Int?
    /// Whether it stands there without quotes, so that `true` and `1` are no texts.
    var isPlain = true
}

/// Reads and writes sizes as the file has them: a number and `B`, `KiB`, `MiB` or `GiB`.
enum SizeText {
    private static let units: [(name: String, bytes: Int)] = [
        ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1),
    ]

    /// Returns the size in bytes, or nil when the text is none.
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

/// Reads and writes durations as the file has them: one or more of a number and `d`, `h`, `m`, `s` or `ms`, with or
/// without spaces between (`30d`, `1h 30m`).
enum DurationText {
    private static let units: [(name: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]

    /// Returns the duration, or nil when the text is none.
    ///
    /// Units come once and from large to small.
    static func parse(_ text: String) -> Duration? {
        var rest = Substring(text)
        var total: Int64 = 0
        var smallest = -1
        guard !rest.isEmpty else { return nil }
        while !rest.isEmpty {
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            rest = rest.dropFirst(digits.count)
            let letters = rest.prefix { $0.isASCII && $0.isLetter }
            rest = rest.dropFirst(letters.count).drop { $0 == " " }
            guard let number = Int64(digits), let index = units.firstIndex(where: { $0.name == letters }),
                index > smallest
            else { return nil }
            smallest = index
            let (product, overflow) = number.multipliedReportingOverflow(by: units[index].milliseconds)
            let (sum, overflowed) = total.addingReportingOverflow(product)
            guard !overflow, !overflowed else { return nil }
            total = sum
        }
        return text.hasSuffix(" ") ? nil : .milliseconds(total)
    }

    /// Writes a duration in its largest exact unit.
    static func write(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let milliseconds = seconds * 1000 + attoseconds / 1_000_000_000_000_000
        guard let unit = units.first(where: { milliseconds != 0 && milliseconds % $0.milliseconds == 0 }) else {
            return "0s"
        }
        return "\(milliseconds / unit.milliseconds)\(unit.name)"
    }
}
