import Glibc

/// The limit on the process's descriptors, and the share for connections (SEC-105).
enum DescriptorLimit {
    /// Raises the soft limit to the hard one, and returns the resulting limit.
    static func raise() -> Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
        if limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = limit.rlim_max
            if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 { limit = raised }
        }
        return Int(clamping: limit.rlim_cur)
    }

    /// Returns the number of connections that the listeners for apps and backends may have together.
    ///
    /// Half of the descriptors are for connections, but at most 100,000. Relayed calls, management, the store and provider
    /// calls need the other descriptors, even at full load.
    static func connections(of descriptors: Int) -> Int { max(min(descriptors / 2, 100_000), 8) }
}
