/// The bytes that one connection has received and not yet answered, charged to its address's account.
///
/// Small requests cost no lock: the first 4 KiB of a connection are not charged, because the number of connections
/// bounds them, and beyond that bytes are taken by the 4 KiB.
struct HeldBytes {
    private static let quantum = 4096

    private let account: PeerAccount?
    private var held = 0
    private var charged = 0

    init(account: PeerAccount?) { self.account = account }

    /// Takes note of bytes that came in; false when the address holds as many as it may.
    mutating func add(_ bytes: Int) -> Bool {
        held += bytes
        guard let account, held > charged + Self.quantum else { return true }
        let wanted = (held - charged - 1) / Self.quantum * Self.quantum
        guard account.take(wanted) else { return false }
        charged += wanted
        return true
    }

    /// Keeps no more than `bytes` of what came in: the rest is answered, or somebody's.
    mutating func keep(_ bytes: Int) {
        held = min(held, bytes)
        guard charged > 0, held <= charged else { return }
        let kept = held <= Self.quantum ? 0 : held / Self.quantum * Self.quantum
        guard kept < charged else { return }
        account?.give(charged - kept)
        charged = kept
    }
}
