import Foundation

#if canImport(CryptoKit)
    import CryptoKit
#endif

/// SHA-256 of tokens and keys, from CryptoKit if the platform has it.
enum SHA256 {
    /// Returns the digest, 32 bytes.
    static func digest(of message: Data) -> Data {
        #if canImport(CryptoKit)
            Data(CryptoKit.SHA256.hash(data: message))
        #else
            OwnSHA256.digest(of: message)
        #endif
    }
}
