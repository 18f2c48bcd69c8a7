/// Name and value pairs of a query or a form body, in order, decoded as `application/x-www-form-urlencoded`.
package struct Pairs: Sendable {
    /// One pair.
    package struct Pair: Sendable, Equatable {
        /// The decoded name.
        package var name: String
        /// The decoded value.
        package var value: String
    }

    /// The pairs in their original order.
    package var all: [Pair] = []

    /// No pairs.
    package init() {}

    /// The pairs of a raw query or form body.
    package init(parsing raw: some StringProtocol) {
        for part in raw.split(separator: "&") {
            let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = halves.first else { continue }
            all.append(
                Pair(
                    name: FormCoding.decode(name),
                    value: halves.count > 1 ? FormCoding.decode(halves[1]) : ""))
        }
    }

    /// The pairs as given.
    package init(_ pairs: [(String, String)]) {
        all = pairs.map { Pair(name: $0.0, value: $0.1) }
    }

    /// The first value under a name.
    package subscript(name: String) -> String? { all.first { $0.name == name }?.value }

    /// A name that occurs twice, if any (RFC 6749 section 3.1 forbids it).
    package var repeatedName: String? { repeatedName(but: []) }

    /// Returns a name that occurs twice although `repeatable` lacks it; nil if each such name occurs once.
    package func repeatedName(but repeatable: Set<String>) -> String? {
        var seen: Set<String> = []
        return all.first { !repeatable.contains($0.name) && !seen.insert($0.name).inserted }?.name
    }

    /// All values under a name.
    package func values(_ name: String) -> [String] { all.filter { $0.name == name }.map(\.value) }

    /// Adds a pair at the end.
    package mutating func add(_ name: String, _ value: String?) {
        if let value { all.append(Pair(name: name, value: value)) }
    }

    /// The pairs as a form body or query.
    package var encoded: String {
        all.map { FormCoding.encode($0.name) + "=" + FormCoding.encode($0.value) }.joined(separator: "&")
    }
}

extension Pairs {
    /// A redirect target with these pairs added to its query.
    func added(to target: String) -> String {
        let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        let base = parts.first.map(String.init) ?? target
        let fragment = parts.count > 1 ? "#" + parts[1] : ""
        return base + (base.contains("?") ? "&" : "?") + encoded + fragment
    }
}
