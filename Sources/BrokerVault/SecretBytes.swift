import COpenSSL

/// Key material in its own memory, which is wiped when the last reference ends (SEC-110).
///
/// Its description omits the bytes.
final class SecretBytes: Sendable, CustomStringConvertible, CustomReflectable {
    /// The number of bytes.
    let count: Int
    /// The memory of the bytes, which is written only in `init`, freed in `deinit`, and only read in between.
    private nonisolated(unsafe) let pointer: UnsafeMutablePointer<UInt8>

    /// Copies the bytes.
    init(_ bytes: [UInt8]) {
        count = bytes.count
        pointer = .allocate(capacity: max(bytes.count, 1))
        for (offset, byte) in bytes.enumerated() { (pointer + offset).initialize(to: byte) }
    }

    deinit {
        OPENSSL_cleanse(pointer, count)
        pointer.deallocate()
    }

    /// Calls `body` with a pointer to the bytes, which is valid only during this call.
    func withBytes<Result>(_ body: (UnsafePointer<UInt8>) -> Result) -> Result { body(UnsafePointer(pointer)) }

    /// Returns whether both keys have the same bytes.
    ///
    /// For keys of equal length, the duration of the comparison is independent of their bytes (SEC-53).
    func isEqual(to other: SecretBytes) -> Bool {
        count == other.count && CRYPTO_memcmp(pointer, other.pointer, count) == 0
    }

    /// Whether all bytes are equal, which a random key never is.
    var isUniform: Bool {
        var difference: UInt8 = 0
        for offset in 0..<count { difference |= pointer[offset] ^ pointer[0] }
        return difference == 0
    }

    var description: String { "<key>" }
    var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// Overwrites an array's key material; if the array shares its storage with another array, only the new copy is overwritten.
func wipe(_ bytes: inout [UInt8]) {
    bytes.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
}
