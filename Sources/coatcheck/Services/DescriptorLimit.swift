import Glibc

/// The most descriptors that the process may have, and how many of them connections may take (SEC-105).
enum DescriptorLimit {
    /// Raises the soft limit to the hard one; returns what then holds.
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

    /// Returns how many connections the listeners for apps and backends may have together.
    ///
    /// Half of the descriptors: a relayed call takes one of its own, and management, the store and provider calls need
    /// theirs when everybody is there.
    static func connections(of descriptors: Int) -> Int { max(min(descriptors / 2, 100_000), 8) }
}
