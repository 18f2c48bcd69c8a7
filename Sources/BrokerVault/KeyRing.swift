package import Broker
import Synchronization

/// The operator's keys, and the index key, which does not rotate (guarantee 5).
///
/// New values are sealed with the newest key whose start time has come. Every key opens the values that it sealed. The ring's
/// description omits the keys.
package struct KeyRing: Sendable, CustomStringConvertible, CustomReflectable {
    /// One key's public part, for `coatcheck keys list`.
    package struct Entry: Sendable, Equatable {
        /// The id that is stored in rows (`k…`).
        package let id: String
        package let created: WallTime
        /// Whether new records are sealed with this key.
        package let seals: Bool
        /// The time when this key starts to seal, if it is in the future; nil otherwise.
        package let waitsUntil: WallTime?
    }

    struct Key: Sendable {
        let id: String
        let key: SecretBytes
        let created: WallTime
        /// The time when this key starts to seal; nil if the key may seal at once.
        ///
        /// Every process can load the key before this time.
        var sealsFrom: WallTime?

        func seals(at now: WallTime) -> Bool { sealsFrom.map { $0 <= now } ?? true }
    }

    /// The length of a key in bytes: 256 bits (SEC-110).
    static let keyLength = 32
    /// The largest number of keys in a file.
    ///
    /// A file with more keys is refused, because it is probably a mistake.
    static let maximumKeys = 64

    let index: SecretBytes
    /// The keys, newest first, at least one.
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

    /// Returns the sealing key: the newest key that may seal at `now`.
    ///
    /// If the start times of all keys are in the future, returns the oldest key.
    func sealing(at now: WallTime) -> Key { keys.first { $0.seals(at: now) } ?? last }

    /// The id of the sealing key.
    package func sealingID(at now: WallTime) -> String { sealing(at: now).id }

    /// Returns the time when the sealing key started to seal, according to the ring.
    package func sealingSince(at now: WallTime) -> WallTime {
        let key = sealing(at: now)
        return key.sealsFrom ?? key.created
    }

    /// Makes a ring with one key and an index key.
    ///
    /// `random` returns the given number of random bytes.
    package static func generate(
        now: WallTime, random: (Int) throws(VaultFailure) -> [UInt8]
    ) throws(KeyRingFailure) -> KeyRing {
        let index = try fresh(random)
        return try KeyRing(index: index, keys: [newKey(now: now, random: random)])
    }

    /// Returns a ring with a new first key.
    ///
    /// The other keys follow the new one, so that they can still open their rows (SEC-49). The new key seals from `sealsFrom`
    /// on. Before this time, every process can load the key. If `sealsFrom` is nil, the key seals at once. Throws if the start
    /// time of the present newest key is still in the future.
    package func rotated(
        now: WallTime, sealsFrom: WallTime? = nil, random: (Int) throws(VaultFailure) -> [UInt8]
    ) throws(KeyRingFailure) -> KeyRing {
        if !first.seals(at: now), let until = first.sealsFrom { throw .waits(first.id, until: until.rfc3339) }
        return try KeyRing(index: index, keys: [Self.newKey(now: now, sealsFrom: sealsFrom, random: random)] + keys)
    }

    /// Returns a ring without a given key.
    ///
    /// Throws in three cases: the ring lacks the key; the key is the sealing key; or the key's start time is in the future.
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

    /// The keys' public parts.
    ///
    /// The newest key is marked as the sealing key, even if its start time is in the future.
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

extension KeyRing {
    /// Parses a key file strictly:
    /// `{"version":1,"index":{"key":"…"},"keys":[{"id":"k…","key":"…","created":"2026-11-20T21:00:00Z"}]}`.
    ///
    /// A key may have `seals_from`, a time like `created`.
    package static func parse(_ json: [UInt8]) throws(KeyRingFailure) -> KeyRing {
        let root: JSONObject
        do throws(JSONFailure) {
            root = try JSONParser.parseObject(json, maximumBytes: 65_536, maximumDepth: 4)
        } catch { throw .notJSON(reason: error.reason.rawValue, byte: error.offset) }
        try requireMembers(root, ["version", "index", "keys"], at: "")
        guard root["version"]?.integer == 1 else { throw .unsupportedVersion }
        guard let indexObject = root["index"]?.object else { throw .member("/index") }
        try requireMembers(indexObject, ["key"], at: "/index")
        let index = try key(indexObject["key"], place: "index", at: "/index/key")
        guard let items = root["keys"]?.array else { throw .member("/keys") }
        var keys: [Key] = []
        for (position, item) in items.enumerated() {
            let pointer = "/keys/\(position)"
            guard let object = item.object else { throw .member(pointer) }
            try requireMembers(object, ["id", "key", "created"], optional: ["seals_from"], at: pointer)
            guard let id = object["id"]?.string, isKeyID(id) else { throw .member("\(pointer)/id") }
            guard let text = object["created"]?.string, let created = WallTime(rfc3339: text) else {
                throw .member("\(pointer)/created")
            }
            let sealsFrom = object["seals_from"]?.string.flatMap { WallTime(rfc3339: $0) }
            guard object["seals_from"] == nil || sealsFrom != nil else { throw .member("\(pointer)/seals_from") }
            keys.append(
                Key(
                    id: id, key: try key(object["key"], place: id, at: "\(pointer)/key"), created: created,
                    sealsFrom: sealsFrom))
        }
        return try KeyRing(index: index, keys: keys)
    }

    /// Writes the key file.
    ///
    /// The bytes are secret, and belong only in a file of mode 0600.
    package func json() -> Secret {
        var writer = JSONWriter(capacity: 256)
        writer.object { writer in
            writer.member("version", 1)
            writer.name("index")
            writer.object { $0.member("key", Self.text(index)) }
            writer.name("keys")
            writer.array { writer in
                for key in keys {
                    writer.object { writer in
                        writer.member("id", key.id)
                        writer.member("key", Self.text(key.key))
                        writer.member("created", key.created)
                        if let time = key.sealsFrom { writer.member("seals_from", time) }
                    }
                }
            }
        }
        return Secret(String(decoding: writer.bytes, as: UTF8.self) + "\n")
    }

    private static func text(_ key: SecretBytes) -> String {
        let length = key.count
        return key.withBytes { Base64URL.encode(UnsafeBufferPointer(start: $0, count: length)) }
    }

    private static func requireMembers(
        _ object: JSONObject, _ names: [String], optional: [String] = [], at pointer: String
    ) throws(KeyRingFailure) {
        for name in names where object[name] == nil { throw .member("\(pointer)/\(name)") }
        // An unknown member may be misspelt, so refuse the file. The name may contain a key by mistake, so the message has
        // only the name's first 32 characters.
        let known = names + optional
        for name in object.names where !known.contains(name) { throw .member("\(pointer)/\(name.prefix(32))") }
    }

    private static func key(
        _ value: JSONValue?, place: String, at pointer: String
    ) throws(KeyRingFailure) -> SecretBytes {
        guard let text = value?.string else { throw .member(pointer) }
        guard var bytes = Base64URL.decode(text) else { throw .notBase64URL(place: place) }
        defer { wipe(&bytes) }
        guard bytes.count == keyLength else { throw .wrongLength(place: place, bytes: bytes.count) }
        return SecretBytes(bytes)
    }

    /// Returns whether a key id is `k` and 1 to 31 further base64url characters.
    private static func isKeyID(_ id: String) -> Bool {
        id.hasPrefix("k") && Base64URL.isToken(id, length: 2...32)
    }
}

/// A key ring with all subkeys derived.
///
/// A loaded ring is immutable, so that a request uses one ring throughout.
final class LoadedRing: Sendable {
    /// The subkeys of one key of the ring.
    struct Subkeys: Sendable {
        let id: String
        let seal: [SealedKind: SecretBytes]
        let sessionToken: KeyedHash
        /// The number of seals with this key, for all kinds of records together.
        let seals: SealCounter
    }

    /// Counts the seals with a key (SEC-110).
    final class SealCounter: Sendable {
        /// The number of seals by this process.
        let count = Atomic<Int>(0)
        /// The number of seals by other processes, including processes that have ended.
        let elsewhere = Atomic<Int>(0)

        var total: Int { count.load(ordering: .relaxed) &+ elsewhere.load(ordering: .relaxed) }
    }

    /// The subkeys of the sealing key.
    let first: Subkeys
    private let byID: [String: Subkeys]
    private let index: [IndexKind: KeyedHash]

    /// Derives the subkeys; returns nil if the library fails.
    ///
    /// For a key that is also in `previous`, the count of its seals continues.
    init?(_ ring: KeyRing, at now: WallTime, algorithms: Algorithms, previous: LoadedRing?) {
        var byID: [String: Subkeys] = [:]
        for key in ring.keys {
            var seal: [SealedKind: SecretBytes] = [:]
            for kind in SealedKind.allCases {
                guard let subkey = Self.derive(key.key, .seal(kind), algorithms) else { return nil }
                seal[kind] = subkey
            }
            guard let tokenKey = Self.derive(key.key, .sessionToken, algorithms),
                let sessionToken = KeyedHash(algorithms, key: tokenKey)
            else { return nil }
            let counter = previous?.byID[key.id]?.seals ?? SealCounter()
            byID[key.id] = Subkeys(id: key.id, seal: seal, sessionToken: sessionToken, seals: counter)
        }
        var index: [IndexKind: KeyedHash] = [:]
        for kind in IndexKind.allCases {
            guard let subkey = Self.derive(ring.index, .index(kind), algorithms),
                let hash = KeyedHash(algorithms, key: subkey)
            else { return nil }
            index[kind] = hash
        }
        guard let first = byID[ring.sealingID(at: now)] else { return nil }
        self.first = first
        self.byID = byID
        self.index = index
    }

    /// Returns the subkeys of a ring key; nil if the ring lacks it.
    func subkeys(_ id: String) -> Subkeys? { id == first.id ? first : byID[id] }

    /// Returns the keyed hash of an index.
    func hash(_ kind: IndexKind) -> KeyedHash? { index[kind] }

    /// Stores the number of seals that other processes have made with each key, by key id.
    func noteSeals(elsewhere counts: [String: Int]) {
        for (key, count) in counts { byID[key]?.seals.elsewhere.store(max(0, count), ordering: .relaxed) }
    }

    /// The number of seals that this process has made with each key, by key id.
    var sealCounts: [String: Int] { byID.mapValues { $0.seals.count.load(ordering: .relaxed) } }

    private static func derive(_ key: SecretBytes, _ purpose: Purpose, _ algorithms: Algorithms) -> SecretBytes? {
        algorithms.hkdf(key: key, salt: [], info: purpose.label, count: KeyRing.keyLength)
    }
}
