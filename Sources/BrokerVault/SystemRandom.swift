package import Broker
import COpenSSL

/// The process's random source: OpenSSL's generator, whose result is always checked.
package enum SystemRandom {
    /// Returns `count` random bytes; throws `unavailable` if the generator fails.
    package static func bytes(_ count: Int) throws(VaultFailure) -> [UInt8] {
        guard count > 0 else { return [] }
        var succeeded = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            succeeded = fill(buffer.baseAddress, count)
            initialized = succeeded ? count : 0
        }
        guard succeeded else { throw .unavailable }
        return bytes
    }

    /// Fills the memory; returns false if the generator fails.
    static func fill(_ pointer: UnsafeMutablePointer<UInt8>?, _ count: Int) -> Bool {
        guard let pointer, let length = Int32(exactly: count), RAND_bytes(pointer, length) == 1 else {
            ERR_clear_error()
            return false
        }
        return true
    }
}
