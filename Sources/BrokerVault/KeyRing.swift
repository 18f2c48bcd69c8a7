package import Broker

/// The operator's keys: the first whose time has come seals, all open, and the index key, which does not rotate
/// (guarantee 5).
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
        /// From when on it seals, where that is still to come.
        package let waitsUntil: WallTime?
    }

    struct Key: Sendable {
        let id: String
        let key: SecretBytes
        let created: WallTime
        /// From when on it seals, once every process has read it; nil is always.
        var sealsFrom: WallTime?

        func seals(at now: WallTime) -> Bool { sealsFrom.map { $0 <= now } ?? true }
    }

    /// The bytes of a key: 256 bits (SEC-110).
    static let keyLength = 32
    /// More keys than this is a mistake in the file.
    static let maximumKeys = 64

    let index: SecretBytes
    /// Newest first, at least one.
    let keys: [Key]
    private let first: Key
    private let last: Key

    init(index: SecretBytes, keys: [Key]) throws(KeyRingFailure) {
        guard let first = keys.first, let last = keys.last else { throw .noKeys }
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
        self.keys = keys
        self.first = first
        self.last = last
    }

    /// Returns the key that seals: the newest whose time has come.
    func sealing(at now: WallTime) -> Key { keys.first { $0.seals(at: now) } ?? last }

    /// The id of the key that seals.
    package func sealingID(at now: WallTime) -> String { sealing(at: now).id }

    /// Since when the sealing key seals, as far as the ring says.
    package func sealingSince(at now: WallTime) -> WallTime {
        let key = sealing(at: now)
        return key.sealsFrom ?? key.created
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
    ///
    /// It seals from then on, so that every process has learnt to read it before; nil is at once. A ring whose last new key
    /// still waits is refused.
    package func rotated(
        now: WallTime, sealsFrom: WallTime? = nil, random: (Int) throws(VaultFailure) -> [UInt8]
    ) throws(KeyRingFailure) -> KeyRing {
        if !first.seals(at: now), let until = first.sealsFrom { throw .waits(first.id, until: until.rfc3339) }
        return try KeyRing(index: index, keys: [Self.newKey(now: now, sealsFrom: sealsFrom, random: random)] + keys)
    }

    /// Returns a ring without a key that no longer seals.
    package func removing(_ id: String, now: WallTime) throws(KeyRingFailure) -> KeyRing {
        guard let key = keys.first(where: { $0.id == id }) else { throw .unknownID(id) }
        guard id != sealing(at: now).id else { throw .seals(id) }
        if !key.seals(at: now), let until = key.sealsFrom { throw .waits(id, until: until.rfc3339) }
        return try KeyRing(index: index, keys: keys.filter { $0.id != id })
    }

    /// The keys' public parts, newest first.
    package func list(at now: WallTime) -> [Entry] {
        let sealing = sealing(at: now)
        return keys.map { key in
            Entry(
                id: key.id, created: key.created, seals: key.id == sealing.id,
                waitsUntil: key.seals(at: now) ? nil : key.sealsFrom)
        }
    }

    /// The keys' public parts, when all have come to their time.
    package var list: [Entry] { list(at: WallTime(milliseconds: .max)) }

    private static func fresh(_ random: (Int) throws(VaultFailure) -> [UInt8]) throws(KeyRingFailure) -> SecretBytes {
        do throws(VaultFailure) {
            var bytes = try random(keyLength)
            defer { wipe(&bytes) }
            guard bytes.count == keyLength else { throw VaultFailure.unavailable }
            return SecretBytes(bytes)
        } catch { throw .noRandomness }
    }

    private static func newKey(
        now: WallTime, sealsFrom: WallTime? = nil, random: (Int) throws(VaultFailure) -> [UInt8]
    ) throws(KeyRingFailure) -> Key {
        let id: String
        do throws(VaultFailure) { id = "k" + Base64URL.encode(try random(6)) } catch { throw .noRandomness }
        return Key(
            id: id, key: try fresh(random), created: WallTime(seconds: now.seconds),
            sealsFrom: sealsFrom.map { WallTime(seconds: $0.seconds) })
    }

    package var description: String { "<key ring of \(keys.count)>" }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
