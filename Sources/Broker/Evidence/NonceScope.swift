import Synchronization

/// A name that is part of the HMAC in each nonce.
///
/// A process accepts only nonces with the name of its own scope.
///
/// If each process remembers used proofs alone, each process has a name of its own. So only one process accepts a proof. If the
/// processes share a store that remembers used proofs, all of them have the empty name.
///
/// The type also keeps the computed HMACs.
package final class NonceScope: Sendable, ExpressibleByStringLiteral {
    private struct Kept {
        /// The present minute at the time when the HMACs were computed.
        var present: Int64 = -1
        /// The HMACs, by the minute that they cover.
        ///
        /// About a dozen minutes have nonces that are accepted now.
        var codes: [Int64: ArraySlice<UInt8>] = [:]
    }

    private let name: String
    /// Guards the computed HMACs.
    ///
    /// All nonces of a minute have the same HMAC. The HMACs are computed again each minute, because a process may adopt another
    /// key ring while it runs.
    private let kept = Mutex(Kept())

    package init(_ name: String) { self.name = name }

    package convenience init(stringLiteral name: String) { self.init(name) }

    /// Returns the HMAC of a minute and the scope's name under the index key, which does not rotate.
    ///
    /// `present` is the present minute.
    ///
    /// The HMAC has eight bytes. An attacker would have to guess the HMAC within ten minutes, one request at a time.
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
