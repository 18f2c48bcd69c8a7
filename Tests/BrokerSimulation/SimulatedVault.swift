import Broker

/// A vault for simulations.
///
/// The vault's random numbers come from the seed, and its digests are quick to compute.
///
/// A sealed record is not encrypted, but it opens only for its own row and kind.
struct SimulatedVault: Vault {
    /// The key ring of a process, given by the number of its newest key.
    ///
    /// The ring also has all older keys.
    final class Ring: @unchecked Sendable {
        var newest = 1
    }

    let scheduler: Scheduler
    let ring: Ring

    var currentKeyID: String { "k\(ring.newest)" }

    private func checkHas(_ keyID: String) throws(VaultFailure) {
        guard let number = Int(keyID.dropFirst()), number <= ring.newest else { throw .unknownKey(keyID) }
    }

    func seal(_ plaintext: [UInt8], as kind: SealedKind, row: Digest) throws(VaultFailure) -> Sealed {
        Sealed(keyID: currentKeyID, envelope: Self.binding(kind, row) + plaintext)
    }

    func open(_ sealed: Sealed, as kind: SealedKind, row: Digest) throws(VaultFailure) -> [UInt8] {
        try checkHas(sealed.keyID)
        let binding = Self.binding(kind, row)
        guard sealed.envelope.starts(with: binding) else { throw .doesNotOpen }
        return Array(sealed.envelope.dropFirst(binding.count))
    }

    private static func binding(_ kind: SealedKind, _ row: Digest) -> [UInt8] {
        Array(kind.rawValue.utf8.prefix(2)) + row.bytes.prefix(8)
    }

    func digest(_ bytes: [UInt8]) -> Digest {
        var state: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes { state = (state ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        var random = SeededRandom(seed: state ^ UInt64(bytes.count))
        guard let digest = Digest(Self.bytes(32, &random)) else { preconditionFailure("32 bytes") }
        return digest
    }

    func index(_ kind: IndexKind, _ parts: [String]) -> Digest {
        digest(Array((kind.rawValue + "|" + parts.joined(separator: "|")).utf8))
    }

    func sessionToken(keyID: String, salt: [UInt8], proof: Secret) throws(VaultFailure) -> Secret {
        try checkHas(keyID)
        return Secret(Base64URL.encode(digest(salt + Array(keyID.utf8) + proof.bytes()).bytes))
    }

    /// Accepts a signature that is the digest of key and message, written twice.
    ///
    /// So the public key is enough to make a signature.
    func isES256Signature(_ signature: [UInt8], over message: [UInt8], by key: ProofKey) -> Bool {
        let digest = digest(key.x + key.y + message).bytes
        return signature == digest + digest
    }

    func proofKeyPair(seed: [UInt8]) throws(VaultFailure) -> ProofKeyPair {
        let (x, y) = (digest(seed + [1]).bytes, digest(seed + [2]).bytes)
        guard let key = ProofKey(x: x, y: y) else { throw .unavailable }
        return ProofKeyPair(publicKey: key, scalar: Secret(Base64URL.encode(digest(seed).bytes)))
    }

    func es256Signature(over message: [UInt8], by key: ProofKeyPair) throws(VaultFailure) -> [UInt8] {
        let digest = digest(key.publicKey.x + key.publicKey.y + message).bytes
        return digest + digest
    }

    func random(_ count: Int) throws(VaultFailure) -> [UInt8] { Self.bytes(count, &scheduler.random) }

    private static func bytes(_ count: Int, _ random: inout SeededRandom) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + 8)
        while bytes.count < count {
            withUnsafeBytes(of: random.next().littleEndian) { bytes.append(contentsOf: $0) }
        }
        bytes.removeLast(bytes.count - count)
        return bytes
    }
}
