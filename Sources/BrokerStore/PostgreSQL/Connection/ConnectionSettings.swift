import Broker
import CLibPQ

/// The settings of a connection to PostgreSQL: the operator's URL, and defaults for all that the URL leaves open (library note
/// 11).
package struct ConnectionSettings: Sendable {
    /// Whether the connection goes through a pooler, which may use another server connection for each transaction.
    package let isPooled: Bool
    /// Keywords and values in libpq's reading order.
    ///
    /// If a keyword occurs twice, libpq uses the last value.
    let parameters: [(keyword: String, value: String)]
    /// Whether each host is this machine.
    package let isLocal: Bool
    /// Whether the URL holds a password.
    package let hasPassword: Bool
    /// The server's hosts and database, in a form for people.
    package let place: String

    private static let defaults: [(String, String)] = [
        ("application_name", "coatcheck"), ("client_encoding", "UTF8"), ("connect_timeout", "3"),
        ("tcp_user_timeout", "5000"), ("keepalives_idle", "10"), ("keepalives_interval", "5"),
        ("keepalives_count", "2"), ("gssencmode", "disable"), ("target_session_attrs", "read-write"),
    ]
    private static let authorities = "/etc/ssl/certs/ca-certificates.crt"

    /// Reads a `postgresql://` URL.
    ///
    /// Errors omit the URL, because it may contain a password. `variable` reads the process's environment, and `exists`
    /// returns whether a file exists. `resolve` asks libpq for the options that it would add to the URL from other sources.
    package init(
        url: String, isPooled: Bool = false, variable: (String) -> String? = { _ in nil },
        exists: (String) -> Bool = { _ in false },
        resolve: ([String: String]) -> [String: String] = ResolvedOptions.find
    ) throws(StoreOpenFailure) {
        guard url.hasPrefix("postgresql://") || url.hasPrefix("postgres://") else {
            throw .address("it has to begin with postgresql://")
        }
        guard !url.utf8.contains(0) else { throw .address("it has a zero byte") }
        var message: UnsafeMutablePointer<CChar>?
        guard let parsed = PQconninfoParse(url, &message) else {
            PQfreemem(message)
            throw .address("libpq cannot parse it; check its percent signs and its query")
        }
        defer { PQconninfoFree(parsed) }
        var given: [String: String] = [:]
        var option = parsed
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { given[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        let resolved = resolve(given)
        isLocal = Self.addresses(resolved).allSatisfy { Self.isLocal($0) }
        var parameters = Self.defaults.filter { given[$0.0] == nil }
        // A resolved `prefer` may be libpq's default or come from a service file. Both are too weak for another machine, so
        // neither counts as a choice of the operator.
        let isSaid =
            (given["sslmode"] ?? variable("PGSSLMODE")) != nil || ![nil, "prefer"].contains(resolved["sslmode"])
        if !isLocal, !isSaid {
            parameters.append(("sslmode", "verify-full"))
            let own = (variable("HOME") ?? "") + "/.postgresql/root.crt"
            if resolved["sslrootcert"] == nil, variable("PGSSLROOTCERT") == nil, !exists(own), exists(Self.authorities)
            {
                parameters.append(("sslrootcert", Self.authorities))
            }
        }
        self.isPooled = isPooled
        hasPassword = given["password"] != nil
        place = "postgresql://\(given["host"] ?? given["hostaddr"] ?? "")/\(given["dbname"] ?? "")"
        self.parameters = parameters + given.map { ($0.key, $0.value) }.sorted { $0.0 < $1.0 }
    }

    /// Returns the addresses that libpq connects to.
    ///
    /// For each host, this is its address if given, or else its name; it is empty for a socket.
    private static func addresses(_ options: [String: String]) -> [String] {
        let list = { (keyword: String) in
            (options[keyword] ?? "").split(separator: ",", omittingEmptySubsequences: false).map { String($0) }
        }
        let (hosts, addresses) = (list("host"), list("hostaddr"))
        return (0..<max(hosts.count, addresses.count)).map { index in
            let address = index < addresses.count ? addresses[index] : ""
            return address.isEmpty && index < hosts.count ? hosts[index] : address
        }
    }

    /// Returns whether a host is this machine: a socket's directory, or a loopback name or address.
    private static func isLocal(_ host: String) -> Bool {
        host.isEmpty || host.hasPrefix("/") || host.hasPrefix("@") || host == "localhost"
            || host.hasSuffix(".localhost") || host == "::1" || isLoopback(host)
    }

    private static func isLoopback(_ host: String) -> Bool {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil } && parts[0] == "127"
    }
}

/// The options that libpq derives for a connection.
///
/// In order of precedence: the given options, the service named in them or in the environment, the environment's other
/// variables, libpq's defaults.
package enum ResolvedOptions {
    /// An invalid option.
    ///
    /// With it, libpq resolves the options and then fails before it contacts a server.
    private static let stop = ("target_session_attrs", "none-at-all")

    /// Returns the options of a libpq connection.
    ///
    /// If libpq cannot resolve the options, returns only the given options.
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
