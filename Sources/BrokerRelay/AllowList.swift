import Broker

/// The calls that the relay may make to an upstream.
///
/// A call is allowed only if an entry names its method and path.
package struct AllowList: Sendable, Equatable {
    /// Methods that are never relayed, even if a list names them (SEC-80).
    static let refusedMethods: Set<String> = ["CONNECT", "TRACE"]

    let entries: [AllowEntry]

    /// Creates a list from its entries.
    package init(_ entries: [AllowEntry]) { self.entries = entries }

    /// Returns whether some entry names both the method and the path.
    package func allows(method: String, path: CanonicalPath) -> Bool {
        entries.contains { $0.allows(method: method) && $0.allows(path: path) }
    }
}

/// One line of an upstream's `allow`: `METHOD[,METHOD…] PATH`.
///
/// `*` matches one segment, `**` the rest of the path, and `ANY` any method.
package struct AllowEntry: Sendable, Equatable {
    enum Part: Sendable, Equatable {
        case literal([UInt8])
        /// A `*`, which matches one nonempty segment.
        case segment
        /// A `**`, which matches any rest of a path after the preceding slash, even an empty rest.
        case rest
    }

    /// The methods; nil matches any.
    let methods: [String]?
    let parts: [Part]

    /// Parses an entry; throws a description of its fault.
    package init(_ text: String) throws(UpstreamFault) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 2, let names = words.first, let path = words.last else {
            throw UpstreamFault("allow", "`\(text)` is not `METHOD[,METHOD…] PATH`, such as `GET /v1/**`")
        }
        if names == "ANY" {
            methods = nil
        } else {
            let list = names.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
            for name in list {
                guard !name.isEmpty, name.utf8.allSatisfy({ (0x41...0x5A).contains($0) || $0 == 0x2D }), name != "ANY"
                else { throw UpstreamFault("allow", "`\(text)`: `\(name)` is not a method in capital letters") }
                guard !AllowList.refusedMethods.contains(name) else {
                    throw UpstreamFault("allow", "`\(text)`: \(name) is never relayed")
                }
            }
            methods = list
        }
        parts = try Self.parts(of: path, in: text)
    }

    private static func parts(of path: Substring, in text: String) throws(UpstreamFault) -> [Part] {
        guard path.first == "/" else { throw UpstreamFault("allow", "`\(text)`: the path must begin with `/`") }
        let segments = path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        var parts: [Part] = []
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            switch segment {
            case "**":
                guard isLast else { throw UpstreamFault("allow", "`\(text)`: `**` can only be the last segment") }
                parts.append(.rest)
            case "*": parts.append(.segment)
            case "" where isLast: parts.append(.literal([]))
            default:
                guard !segment.contains("*") else {
                    throw UpstreamFault("allow", "`\(text)`: `*` stands for a whole segment")
                }
                guard !segment.isEmpty, let canonical = try? CanonicalPath("/" + segment) else {
                    throw UpstreamFault("allow", "`\(text)`: `\(segment)` can never be matched: such a path is refused")
                }
                parts.append(.literal(Array(canonical.text.utf8.dropFirst())))
            }
        }
        return parts
    }

    /// Returns whether the entry has the method.
    func allows(method: String) -> Bool { methods?.contains(method) ?? true }

    /// Returns whether the entry matches the path.
    func allows(path: CanonicalPath) -> Bool {
        let bytes = path.text.utf8
        var index = bytes.startIndex
        for part in parts {
            guard index < bytes.endIndex, bytes[index] == 0x2F else { return false }
            index = bytes.index(after: index)
            if part == .rest { return true }
            let end = bytes[index...].firstIndex(of: 0x2F) ?? bytes.endIndex
            switch part {
            case .literal(let expected): guard bytes[index..<end].elementsEqual(expected) else { return false }
            case .segment: guard index < end else { return false }
            case .rest: break
            }
            index = end
        }
        return index == bytes.endIndex
    }
}

/// Recognises calls at Clover whose answers contain employees' PINs.
///
/// The PINs must never reach an app by accident.
enum EmployeeRules {
    /// Returns whether a path has a segment `employees`, or a query's `expand` contains `employee`.
    static func concerns(path: CanonicalPath, query: Substring?) -> Bool {
        if path.text.split(separator: "/").contains(where: { $0.lowercased() == "employees" }) { return true }
        guard let query else { return false }
        return query.utf8.split(separator: UInt8(ascii: "&")).contains { pair in
            let equals = pair.firstIndex(of: UInt8(ascii: "="))
            guard let name = FormPairs.decode(pair[..<(equals ?? pair.endIndex)]),
                let value = FormPairs.decode(equals.map { pair[pair.index(after: $0)...] } ?? pair[pair.endIndex...])
            else { return true }
            return name.lowercased() == "expand" && value.lowercased().contains("employee")
        }
    }
}
