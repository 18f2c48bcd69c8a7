import CLibPQ

/// What libpq makes of a connection's options: what was given, then the service it names or the environment does, then the
/// environment's other variables, then its own defaults.
package enum ResolvedOptions {
    /// An option that no libpq takes: it stops behind the options and contacts nobody.
    private static let stop = ("target_session_attrs", "none-at-all")

    /// Returns the options with which libpq would connect; only those that were given where it would not.
    package static func find(_ given: [String: String]) -> [String: String] {
        let options = given.filter { $0.key != stop.0 }.map { ($0.key, $0.value) } + [stop]
        let attempt = LibPQConnection.withStrings(options.map(\.0)) { keywords in
            LibPQConnection.withStrings(options.map(\.1)) { values in PQconnectStartParams(keywords, values, 0) }
        }
        guard let attempt else { return given }
        defer { PQfinish(attempt) }
        guard let found = PQconninfo(attempt) else { return given }
        defer { PQconninfoFree(found) }
        var resolved = given
        var option = found
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val, value.pointee != 0 {
                resolved[String(cString: keyword)] = String(cString: value)
            }
            option += 1
        }
        if let own = given[stop.0] { resolved[stop.0] = own } else { resolved[stop.0] = nil }
        return resolved
    }
}
