package import Broker
import COpenSSL
import Synchronization

/// The vault on the system's OpenSSL 3: AES-256-GCM, HMAC-SHA-256, HKDF-SHA-256 (decision 3).
///
/// Calls are short and synchronous, and allowed from any thread. The ring can be replaced while requests are served.
package final class OpenSSLVault: Vault {
    /// The number of seals with one key after which a rotation is advisable, because GCM's nonces are random.
    ///
    /// The number is far below 2^32 (NIST SP 800-38D section 8.3).
    package static let rotationAdvisedAfter = 1 << 30

    private let algorithms: Algorithms
    /// Guards the current ring.
    private let ring: Mutex<LoadedRing>
    private let isForeign = Atomic<Bool>(false)

    /// Derives every subkey; throws `unavailable` if OpenSSL lacks an algorithm, for example because one of OpenSSL's modules
    /// is missing.
    ///
    /// The sealing key is the newest key that may seal at `now`. If `now` is omitted, the sealing key is the newest of all
    /// keys.
    package init(ring: KeyRing, at now: WallTime = WallTime(milliseconds: .max)) throws(VaultFailure) {
        guard let algorithms = Algorithms.shared,
            let loaded = LoadedRing(ring, at: now, algorithms: algorithms, previous: nil),
            // `digest` and `index` cannot throw, so their algorithms are tried once here.
            algorithms.digest([]) != nil
        else { throw .unavailable }
        self.algorithms = algorithms
        self.ring = Mutex(loaded)
    }

    /// Replaces the ring while requests are served, for a rotation.
    ///
    /// Throws `unknownKey("index")` if the index key differs, because lookups would then find no row. With `isWhole`, a ring
    /// with another index key is accepted. Callers pass this only if the old ring has never opened a value.
    package func replace(
        ring newRing: KeyRing, at now: WallTime = WallTime(milliseconds: .max), isWhole: Bool = false
    ) throws(VaultFailure) {
        let current = self.current
        guard let loaded = LoadedRing(newRing, at: now, algorithms: algorithms, previous: current) else {
            throw .unavailable
        }
        guard isWhole || loaded.hash(.logTag)?.code(of: []) == current.hash(.logTag)?.code(of: []) else {
            throw .unknownKey("index")
        }
        ring.withLock { $0 = loaded }
    }

    private var current: LoadedRing { ring.withLock { $0 } }

    /// Whether the ring has a key with this id.
    package func hasKey(_ id: String) -> Bool { current.subkeys(id) != nil }

    package var currentKeyID: String { current.first.id }

    package var isTheStores: Bool { !isForeign.load(ordering: .relaxed) }

    /// Stores whether the ring is the right one for the store, which means that it opens the stored values.
    package func note(isTheStores: Bool) { isForeign.store(!isTheStores, ordering: .relaxed) }

    /// The number of seals that this process has made with each key, by key id.
    package var sealCounts: [String: Int] { current.sealCounts }

    /// Stores the number of seals that other processes have made with each key, by key id.
    package func noteSeals(elsewhere counts: [String: Int]) { current.noteSeals(elsewhere: counts) }

    /// Whether a rotation is advisable, because all processes together have made very many seals with the sealing key.
    package var rotationAdvised: Bool {
        current.first.seals.total >= Self.rotationAdvisedAfter
    }

    package func seal(_ plaintext: [UInt8], as kind: SealedKind, row: Digest) throws(VaultFailure) -> Sealed {
        let key = current.first
        guard let subkey = key.seal[kind] else { throw .unavailable }
        key.seals.count.add(1, ordering: .relaxed)
        let associatedData = Envelope.associatedData(kind: kind, keyID: key.id, row: row)
        guard
            let envelope = Envelope.seal(
                plaintext, key: subkey, associatedData: associatedData, algorithms: algorithms)
        else { throw .unavailable }
        return Sealed(keyID: key.id, envelope: envelope)
    }

    package func open(_ sealed: Sealed, as kind: SealedKind, row: Digest) throws(VaultFailure) -> [UInt8] {
        guard let subkey = current.subkeys(sealed.keyID)?.seal[kind] else { throw .unknownKey(sealed.keyID) }
        do throws(EnvelopeFailure) {
            return try openEnvelope(sealed, kind: kind, row: row, subkey: subkey)
        } catch { throw error == .library ? .unavailable : .doesNotOpen }
    }

    /// Returns the reason why a sealed value does not open; nil if it opens, or if its key is unknown.
    ///
    /// Only tests and diagnosis use this method.
    package func fault(of sealed: Sealed, as kind: SealedKind, row: Digest) -> EnvelopeFailure? {
        guard let subkey = current.subkeys(sealed.keyID)?.seal[kind] else { return nil }
        do throws(EnvelopeFailure) {
            _ = try openEnvelope(sealed, kind: kind, row: row, subkey: subkey)
            return nil
        } catch { return error }
    }

    private func openEnvelope(
        _ sealed: Sealed, kind: SealedKind, row: Digest, subkey: SecretBytes
    ) throws(EnvelopeFailure) -> [UInt8] {
        let associatedData = Envelope.associatedData(kind: kind, keyID: sealed.keyID, row: row)
        return try Envelope.open(
            sealed.envelope, key: subkey, associatedData: associatedData, algorithms: algorithms)
    }

    package func digest(_ bytes: [UInt8]) -> Digest {
        let digest = withUnsafeTemporaryAllocation(byteCount: 32, alignment: 8) { room in
            algorithms.digest(bytes, into: room) ? Digest(UnsafeRawBufferPointer(room)) : nil
        }
        return Self.made(digest)
    }

    package func index(_ kind: IndexKind, _ parts: [String]) -> Digest {
        var message: [UInt8] = []
        message.reserveCapacity(parts.reduce(0) { $0 + 8 + $1.utf8.count })
        for part in parts {
            let length = UInt64(part.utf8.count)
            for shift in stride(from: 56, through: 0, by: -8) {
                message.append(UInt8(truncatingIfNeeded: length >> UInt64(shift)))
            }
            message.append(contentsOf: part.utf8)
        }
        return Self.made(current.hash(kind)?.code(of: message).flatMap { Digest($0) })
    }

    package func sessionToken(keyID: String, salt: [UInt8], proof: Secret) throws(VaultFailure) -> Secret {
        guard let key = current.subkeys(keyID) else { throw .unknownKey(keyID) }
        guard let code = key.sessionToken.code(of: salt, proof.bytes()) else { throw .unavailable }
        return Secret(Base64URL.encode(code))
    }

    package func random(_ count: Int) throws(VaultFailure) -> [UInt8] { try SystemRandom.bytes(count) }

    package func isES256Signature(_ signature: [UInt8], over message: [UInt8], by key: ProofKey) -> Bool {
        ES256Signature.isValid(signature, over: message, by: key)
    }

    package func proofKeyPair(seed: [UInt8]) throws(VaultFailure) -> ProofKeyPair {
        guard let pair = P256Scalar.keyPair(of: seed, algorithms: algorithms) else { throw .unavailable }
        return pair
    }

    package func es256Signature(over message: [UInt8], by key: ProofKeyPair) throws(VaultFailure) -> [UInt8] {
        guard let signature = ES256Signature.make(over: message, by: key) else { throw .unavailable }
        return signature
    }

    /// Returns the library's digest, or stops the process.
    ///
    /// SHA-256 was tested at the start and accepts any input, so only lack of memory can make it fail. Stopping is then better
    /// than using a wrong key.
    private static func made(_ digest: Digest?) -> Digest {
        guard let digest else { preconditionFailure("SHA-256 failed") }
        return digest
    }
}

/// HMAC-SHA-256 under one key.
///
/// The keyed state is made once and copied for each use, so that a use does not have to key the hash again.
final class KeyedHash: Sendable {
    /// The keyed context, which stays unchanged after `init`, because every use works on a copy.
    private nonisolated(unsafe) let template: OpaquePointer

    /// Keys the hash; returns nil if the library fails.
    init?(_ algorithms: Algorithms, key: SecretBytes) {
        guard let context = EVP_MAC_CTX_new(algorithms.hmac) else {
            ERR_clear_error()
            return nil
        }
        var digestName = Array("SHA256".utf8CString)
        let length = key.count
        let keyed = digestName.withUnsafeMutableBufferPointer { digestName in
            let parameters = [
                OSSL_PARAM_construct_utf8_string(parameterName("digest"), digestName.baseAddress, 0),
                OSSL_PARAM_construct_end(),
            ]
            return key.withBytes { EVP_MAC_init(context, $0, length, parameters) == 1 }
        }
        guard keyed else {
            ERR_clear_error()
            EVP_MAC_CTX_free(context)
            return nil
        }
        template = context
    }

    deinit { EVP_MAC_CTX_free(template) }

    /// Returns the 32-byte code of the concatenated parts; nil if the library fails.
    func code(of parts: [UInt8]...) -> [UInt8]? {
        guard let context = EVP_MAC_CTX_dup(template) else {
            ERR_clear_error()
            return nil
        }
        defer { EVP_MAC_CTX_free(context) }
        for part in parts {
            let updated = part.withUnsafeBufferPointer { part in
                part.isEmpty || EVP_MAC_update(context, part.baseAddress, part.count) == 1
            }
            guard updated else {
                ERR_clear_error()
                return nil
            }
        }
        var succeeded = false
        let code = [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
            var length = 0
            succeeded = EVP_MAC_final(context, buffer.baseAddress, &length, 32) == 1 && length == 32
            count = succeeded ? 32 : 0
        }
        guard succeeded else {
            ERR_clear_error()
            return nil
        }
        return code
    }
}

/// The algorithms, fetched from OpenSSL one time.
///
/// A fetch takes locks, so all calls share the fetched algorithms.
struct Algorithms: Sendable {
    /// SHA-256.
    nonisolated(unsafe) let sha256: OpaquePointer
    /// AES-256-GCM.
    nonisolated(unsafe) let aes256GCM: OpaquePointer
    /// HMAC (the digest is chosen on the context).
    nonisolated(unsafe) let hmac: OpaquePointer
    /// HKDF (RFC 5869).
    nonisolated(unsafe) let hkdf: OpaquePointer

    /// The process's algorithms; nil if OpenSSL lacks one of them.
    ///
    /// The fetched algorithms exist until the process ends.
    static let shared: Algorithms? = {
        defer { ERR_clear_error() }
        guard let sha256 = EVP_MD_fetch(nil, "SHA256", nil),
            let aes256GCM = EVP_CIPHER_fetch(nil, "AES-256-GCM", nil),
            let hmac = EVP_MAC_fetch(nil, "HMAC", nil),
            let hkdf = EVP_KDF_fetch(nil, "HKDF", nil)
        else { return nil }
        return Algorithms(sha256: sha256, aes256GCM: aes256GCM, hmac: hmac, hkdf: hkdf)
    }()

    /// Returns the SHA-256 of the bytes; nil if the library fails.
    func digest(_ bytes: [UInt8]) -> [UInt8]? {
        var succeeded = false
        let digest = [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
            succeeded = self.digest(bytes, into: UnsafeMutableRawBufferPointer(buffer))
            count = succeeded ? 32 : 0
        }
        return succeeded ? digest : nil
    }

    /// Writes the SHA-256 of the bytes into the 32 bytes of `room`; returns false if the library fails.
    func digest(_ bytes: [UInt8], into room: UnsafeMutableRawBufferPointer) -> Bool {
        var length: UInt32 = 0
        let result = bytes.withUnsafeBytes { bytes in
            EVP_Digest(
                bytes.baseAddress, bytes.count, room.baseAddress?.assumingMemoryBound(to: UInt8.self), &length, sha256,
                nil)
        }
        guard result == 1, length == 32 else {
            ERR_clear_error()
            return false
        }
        return true
    }

    /// Returns `count` bytes of HKDF-SHA-256 (RFC 5869); nil if the library fails.
    func hkdf(key: SecretBytes, salt: [UInt8], info: [UInt8], count: Int) -> SecretBytes? {
        guard let context = EVP_KDF_CTX_new(hkdf) else {
            ERR_clear_error()
            return nil
        }
        defer { EVP_KDF_CTX_free(context) }
        var digestName = Array("SHA256".utf8CString)
        var salt = salt
        var info = info
        var derived = [UInt8](repeating: 0, count: count)
        defer { wipe(&derived) }
        let length = key.count
        let succeeded = key.withBytes { secret in
            digestName.withUnsafeMutableBufferPointer { digestName in
                salt.withUnsafeMutableBufferPointer { salt in
                    info.withUnsafeMutableBufferPointer { info in
                        let parameters = [
                            OSSL_PARAM_construct_utf8_string(parameterName("digest"), digestName.baseAddress, 0),
                            OSSL_PARAM_construct_octet_string(
                                parameterName("key"), UnsafeMutableRawPointer(mutating: secret), length),
                            OSSL_PARAM_construct_octet_string(parameterName("salt"), salt.baseAddress, salt.count),
                            OSSL_PARAM_construct_octet_string(parameterName("info"), info.baseAddress, info.count),
                            OSSL_PARAM_construct_end(),
                        ]
                        return EVP_KDF_derive(context, &derived, derived.count, parameters) == 1
                    }
                }
            }
        }
        guard succeeded else {
            ERR_clear_error()
            return nil
        }
        return SecretBytes(derived)
    }
}

/// Returns the C text of a parameter's name.
///
/// `OSSL_PARAM` keeps the pointer, so the text must be static. The C text of a `String` would be freed too early.
func parameterName(_ text: StaticString) -> UnsafePointer<CChar> {
    UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)
}
