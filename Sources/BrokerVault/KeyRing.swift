package import Broker

/// The operator's keys: the first seals, all open, and the index key, which does not rotate (DESIGN section 4.5).
///
/// It never describes a key.
package struct KeyRing: Sendable, CustomStringConvertible, CustomReflectable {
    /// One key's public part, for `coatcheck keys list`.
    package struct Entry: Sendable, Equatable {
        /// The id that rows carry (`k…`).
        package let id: String
        package let created: WallTime
        /// Whether new rows are sealed with it.
        package let seals: Bool
    }

    struct Key: Sendable {
        let id: String
        let key: SecretBytes
        let created: WallTime
    }

    /// How many bytes a key has: 256 bits (SEC-110).
    static let keyLength = 32
    /// More keys than this is a mistake in the file.
    static let maximumKeys = 64

    let index: SecretBytes
    /// The one that seals.
    let first: Key
    /// The older ones, newest first.
    let older: [Key]

    var keys: [Key] { [first] + older }

    init(index: SecretBytes, keys: [Key]) throws(KeyRingFailure) {
        guard let first = keys.first else { throw .noKeys }
        guard keys.count <= Self.maximumKeys else { throw .tooManyKeys }
        guard !index.isUniform else { throw .weakKey(place: "index") }
        var seen: [(place: String, key: SecretBytes)] = [("index", index)]
        var ids: Set<String> = []
        for key in keys {
            guard ids.insert(key.id).inserted else { throw .duplicateID(key.id) }
            guard !key.key.isUniform else { throw .weakKey(place: key.id) }
            if let twin = seen.first(where: { $0.key.isEqual(to: key.key) }) {
                throw .sameKeyTwice(twin.place, key.id)
            }
            seen.append((key.id, key.key))
        }
        self.index = index
        self.first = first
        older = Array(keys.dropFirst())
    }

    /// Makes a ring with one key and an index key.
    ///
    /// `random` gives that many random bytes.
    package static func generate(
        now: WallTime, random: (Int) throws(VaultFailure) -> [UInt8]
    ) throws(KeyRingFailure) -> KeyRing {
        let index = try fresh(random)
        return try KeyRing(index: index, keys: [newKey(now: now, random: random)])
    }

    /// Returns a ring whose first key is new; the others follow and go on opening what they sealed (SEC-49).
    package func rotated(
        now: WallTime, random: (Int) throws(VaultFailure) -> [UInt8]
    ) throws(KeyRingFailure) -> KeyRing {
        try KeyRing(index: index, keys: [Self.newKey(now: now, random: random)] + keys)
    }

    /// The keys' public parts, the sealing one first.
    package var list: [Entry] {
        keys.map { Entry(id: $0.id, created: $0.created, seals: $0.id == first.id) }
    }

    private static func fresh(_ random: (Int) throws(VaultFailure) -> [UInt8]) throws(KeyRingFailure) -> SecretBytes {
        do throws(VaultFailure) {
            var bytes = try random(keyLength)
            defer { wipe(&bytes) }
            guard bytes.count == keyLength else { throw VaultFailure.unavailable }
            return SecretBytes(bytes)
        } catch { throw .noRandomness }
    }

    private static func newKey(
        now: WallTime, random: (Int) throws(VaultFailure) -> [UInt8]
    ) throws(KeyRingFailure) -> Key {
        let id: String
        do throws(VaultFailure) { id = "k" + Base64URL.encode(try random(6)) } catch { throw .noRandomness }
        return Key(id: id, key: try fresh(random), created: WallTime(seconds: now.seconds))
    }

    package var description: String { "<key ring of \(keys.count)>" }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
