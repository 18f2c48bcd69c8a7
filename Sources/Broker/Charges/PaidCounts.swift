/// Counts, in bounded memory, the uses that each key had of what a charge has paid for in advance.
struct PaidCounts {
    /// The time that a key is remembered after its last use: longer than what it names lives.
    private let lifetime: Duration
    private var counts: [Digest: (count: Int, until: Duration)] = [:]
    private var nextSweep = Duration.zero

    /// Creates an empty table.
    init(lifetime: Duration) { self.lifetime = lifetime }

    /// Returns how often a key was counted.
    func count(of key: Digest) -> Int { counts[key]?.count ?? 0 }

    /// Counts a key once more; returns how often that makes, or nil where the table is full of others.
    mutating func add(_ key: Digest, now: Duration, capacity: Int) -> Int? {
        if counts.count >= capacity, now >= nextSweep {
            nextSweep = now + .seconds(1)
            counts = counts.filter { now < $0.value.until }
        }
        let made = count(of: key)
        guard made > 0 || counts.count < capacity else { return nil }
        counts[key] = (made + 1, now + lifetime)
        return made + 1
    }

    /// Forgets a key.
    mutating func forget(_ key: Digest) { counts[key] = nil }
}
