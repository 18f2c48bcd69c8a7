import Broker

/// Tells the calls whose answers hold employees' PINs at Clover: they never reach an app by the way.
enum EmployeeRules {
    /// Returns whether a path has a segment `employees`, or a query asks to `expand` anything that names `employee`.
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
