import Synchronization

@testable import Broker

/// A vault that counts the values that it opens, and may fail to seal.
final class CountingVault: Vault {
    private let vault: any Vault
    private let counts = Mutex<[SealedKind: Int]>([:])
    private let failure = Mutex<SealedKind?>(nil)

    init(_ vault: any Vault) { self.vault = vault }

    /// Returns the number of opened values of a kind.
    func opened(_ kind: SealedKind) -> Int { counts.withLock { $0[kind, default: 0] } }

    /// Lets the vault fail to seal values of a kind; nil for none.
    func failsToSeal(_ kind: SealedKind?) { failure.withLock { $0 = kind } }

    func open(_ sealed: Sealed, as kind: SealedKind, row: Digest) throws(VaultFailure) -> [UInt8] {
        counts.withLock { $0[kind, default: 0] += 1 }
        return try vault.open(sealed, as: kind, row: row)
    }

    func seal(_ plaintext: [UInt8], as kind: SealedKind, row: Digest) throws(VaultFailure) -> Sealed {
        if failure.withLock({ $0 == kind }) { throw .unavailable }
        return try vault.seal(plaintext, as: kind, row: row)
    }

    func digest(_ bytes: [UInt8]) -> Digest { vault.digest(bytes) }
    func index(_ kind: IndexKind, _ parts: [String]) -> Digest { vault.index(kind, parts) }

    func sessionToken(keyID: String, salt: [UInt8], proof: Secret) throws(VaultFailure) -> Secret {
        try vault.sessionToken(keyID: keyID, salt: salt, proof: proof)
    }

    func isES256Signature(_ signature: [UInt8], over message: [UInt8], by key: ProofKey) -> Bool {
        vault.isES256Signature(signature, over: message, by: key)
    }

    func proofKeyPair(seed: [UInt8]) throws(VaultFailure) -> ProofKeyPair { try vault.proofKeyPair(seed: seed) }

    func es256Signature(over message: [UInt8], by key: ProofKeyPair) throws(VaultFailure) -> [UInt8] {
        try vault.es256Signature(over: message, by: key)
    }

    var currentKeyID: String { vault.currentKeyID }
    func random(_ count: Int) throws(VaultFailure) -> [UInt8] { try vault.random(count) }
}
