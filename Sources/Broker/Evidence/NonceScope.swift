import Synchronization

/// A name that is part of each nonce's HMAC, so that a process accepts only nonces of its own scope.
///
/// The type caches the HMACs.
///
/// If each process remembers used proofs alone, each process has a scope of its own. Only one process then accepts a proof.
/// If the processes share a store that remembers used proofs, the name is empty for all of them.
package final class NonceScope: Sendable, ExpressibleByStringLiteral {
    private struct Kept {
        /// The minute when the HMACs were computed.
        var present: Int64 = -1
        /// The HMAC of each minute whose nonces are accepted now, about a dozen.
        var codes: [Int64: ArraySlice<UInt8>] = [:]
    }

    private let name: String
    /// Guards the HMACs.
    ///
    /// All nonces of a minute have the same HMAC.
    ///
    /// The HMACs are computed again each minute, because a process may adopt another key ring while it runs.
    private let kept = Mutex(Kept())

    package init(_ name: String) { self.name = name }

    package convenience init(stringLiteral name: String) { self.init(name) }

    /// Returns the HMAC of a minute under the index key, which does not rotate; `present` is the present minute.
    ///
    /// The HMAC has eight bytes. An attacker would have to guess it within ten minutes, one request at a time.
    func code(_ minute: Int64, at present: Int64, by vault: some Vault) -> ArraySlice<UInt8> {
        kept.withLock { kept in
            if kept.present != present { kept = Kept(present: present) }
            if let known = kept.codes[minute] { return known }
            let code = vault.index(.proofNonce, [String(minute), name]).bytes[..<8]
            kept.codes[minute] = code
            return code
        }
    }
}
