/// One fault of the configuration file.
///
/// Its text never holds a value from the file: a value could be a secret.
struct ConfigProblem: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// Whether it keeps the broker from starting.
    enum Severity: String, Sendable { case error, warning }

    /// The line in the file, from 1; nil for what belongs to no line.
    let line: Int?
    /// Where it is, as a dotted path (`providers.clever.clients.ios.auth`).
    let path: String
    /// What is wrong and what would be right.
    let message: String
    let severity: Severity

    var description: String {
        let place = line.map { "line \($0): " } ?? ""
        let subject = path.isEmpty ? "" : "\(path): "
        return "\(severity.rawValue): \(place)\(subject)\(message)"
    }

    static func < (left: ConfigProblem, right: ConfigProblem) -> Bool {
        (left.line ?? 0, left.path, left.message) < (right.line ?? 0, right.path, right.message)
    }
}
