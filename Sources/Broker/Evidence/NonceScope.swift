import Synchronization

/// The scope of nonces, with the HMACs of the scope's minutes.
///
/// If processes have separate memories of used proofs, each process has its own scope, so that a proof is accepted by one
/// process only. If they share the memory, the scope is empty.
package final class NonceScope: Sendable, ExpressibleByStringLiteral {
    private struct Kept {
        /// The minute when the HMACs were computed.
        var present: Int64 = -1
        /// The HMAC of each minute whose nonces are accepted now, about a dozen.
        var codes: [Int64: ArraySlice<UInt8>] = [:]
    }

    private let name: String
    /// Guards the HMACs, which all proofs of a minute share.
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
