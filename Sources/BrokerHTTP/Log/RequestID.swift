import Synchronization

/// Makes request ids: `req_` and 11 base64url characters of 64 random bits.
///
/// The broker ignores ids that clients send (SEC-107).
package enum RequestID {
    /// Returns the request id that is made from these random bits.
    ///
    /// A `String` stores these fifteen characters inline, so the id costs no allocation.
    package static func make(_ bits: UInt64) -> String {
        String(unsafeUninitializedCapacity: 15) { buffer in
            var next = 0
            for byte in "req_".utf8 {
                buffer[next] = byte
                next += 1
            }
            for shift in stride(from: 60, through: 0, by: -6) {
                let index = Int(truncatingIfNeeded: bits >> UInt64(shift) & 63)
                buffer[next] = alphabet[index]
                next += 1
            }
            return next
        }
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// Returns a fresh id, unique in this process and made without a system call.
    ///
    /// The process begins at a random position in a permutation of all 64-bit numbers (SplitMix64). Ids are only names, so they
    /// need not be secret.
    package static func fresh() -> String {
        var bits = state.wrappingAdd(0x9E37_79B9_7F4A_7C15, ordering: .relaxed).newValue
        bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
        return make(bits ^ (bits >> 31))
    }

    private static let state = Atomic<UInt64>(UInt64.random(in: .min ... .max))
}
