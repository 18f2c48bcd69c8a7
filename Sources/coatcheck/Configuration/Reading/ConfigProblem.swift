/// One fault of the configuration file.
///
/// Its text contains no value that may be a secret.
struct ConfigProblem: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// Whether the fault prevents the broker's start.
    enum Severity: String, Sendable { case error, warning }

    /// The line in the file, from 1; nil if the fault has no line.
    let line: Int?
    /// The path of the faulty key, with dots (`providers.clever.clients.ios.auth`).
    let path: String
    /// The fault and its remedy.
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
