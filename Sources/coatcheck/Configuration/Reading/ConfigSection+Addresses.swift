import Broker

extension ConfigSection {
    /// Reads names that a `Host` field may hold, in lower case.
    func hostNames(_ key: String) -> [String] {
        texts(key, limit: 255).compactMap { host in
            if let url = WebURL("https://\(host)"), url.path.isEmpty { return host.lowercased() }
            report(key, "has to hold host names, each with its port if it has one")
            return nil
        }
    }

    /// Reads a list of IP addresses and ranges.
    func networks(_ key: String) -> [IPNetwork] {
        scalars(key).compactMap { scalar in
            if let range = IPNetwork(scalar.text) { return range }
            context.report(
                "has to hold IP addresses or ranges, such as `10.0.0.0/8` (no bits set beyond the prefix)",
                path: child(key), line: scalar.line)
            return nil
        }
    }
}
