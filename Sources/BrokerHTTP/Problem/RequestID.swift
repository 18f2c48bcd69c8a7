import Broker

/// Makes request ids: `req_` and 11 base64url characters of 64 random bits. Ours, never the client's (SEC-107).
package enum RequestID {
    /// Returns the id of these random bits. Fifteen characters, which a `String` holds without an allocation.
    package static func make(_ bits: UInt64) -> String {
        withUnsafeBytes(of: bits) { "req_" + Base64URL.encode($0) }
    }

    /// Returns a fresh id from the system's generator.
    package static func fresh() -> String {
        var generator = SystemRandomNumberGenerator()
        return make(generator.next())
    }
}
