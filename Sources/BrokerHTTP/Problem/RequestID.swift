/// Makes request ids: `req_` and 11 base64url characters of 64 random bits. Ours, never the client's (SEC-107).
package enum RequestID {
    /// Returns the id of these random bits. Fifteen characters, which a `String` holds without an allocation.
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

    /// Returns a fresh id from the system's generator.
    package static func fresh() -> String {
        var generator = SystemRandomNumberGenerator()
        return make(generator.next())
    }
}
