import COpenSSL

/// The algorithms, fetched from OpenSSL once: fetching takes locks and would run on every call otherwise.
struct Algorithms: Sendable {
    /// SHA-256.
    nonisolated(unsafe) let sha256: OpaquePointer
    /// AES-256-GCM.
    nonisolated(unsafe) let aes256GCM: OpaquePointer
    /// HMAC (the digest is chosen on the context).
    nonisolated(unsafe) let hmac: OpaquePointer
    /// HKDF (RFC 5869).
    nonisolated(unsafe) let hkdf: OpaquePointer

    /// The process's; nil when the library's provider lacks one of them.
    ///
    /// They live until the process ends.
    static let shared: Algorithms? = {
        defer { ERR_clear_error() }
        guard let sha256 = EVP_MD_fetch(nil, "SHA256", nil),
            let aes256GCM = EVP_CIPHER_fetch(nil, "AES-256-GCM", nil),
            let hmac = EVP_MAC_fetch(nil, "HMAC", nil),
            let hkdf = EVP_KDF_fetch(nil, "HKDF", nil)
        else { return nil }
        return Algorithms(sha256: sha256, aes256GCM: aes256GCM, hmac: hmac, hkdf: hkdf)
    }()

    /// Returns the SHA-256 of the bytes, or nil when the library fails.
    func digest(_ bytes: [UInt8]) -> [UInt8]? {
        var succeeded = false
        let digest = [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
            var length: UInt32 = 0
            succeeded =
                bytes.withUnsafeBytes { EVP_Digest($0.baseAddress, $0.count, buffer.baseAddress, &length, sha256, nil) }
                == 1 && length == 32
            count = succeeded ? 32 : 0
        }
        guard succeeded else {
            ERR_clear_error()
            return nil
        }
        return digest
    }

    /// Returns `count` bytes of HKDF-SHA-256 (RFC 5869), or nil when the library fails.
    func hkdf(key: SecretBytes, salt: [UInt8], info: [UInt8], count: Int) -> SecretBytes? {
        guard let context = EVP_KDF_CTX_new(hkdf) else {
            ERR_clear_error()
            return nil
        }
        defer { EVP_KDF_CTX_free(context) }
        var digestName = Array("SHA256".utf8CString)
        var salt = salt
        var info = info
        var derived = [UInt8](repeating: 0, count: count)
        defer { wipe(&derived) }
        let length = key.count
        let succeeded = key.withBytes { secret in
            digestName.withUnsafeMutableBufferPointer { digestName in
                salt.withUnsafeMutableBufferPointer { salt in
                    info.withUnsafeMutableBufferPointer { info in
                        let parameters = [
                            OSSL_PARAM_construct_utf8_string(parameterName("digest"), digestName.baseAddress, 0),
                            OSSL_PARAM_construct_octet_string(
                                parameterName("key"), UnsafeMutableRawPointer(mutating: secret), length),
                            OSSL_PARAM_construct_octet_string(parameterName("salt"), salt.baseAddress, salt.count),
                            OSSL_PARAM_construct_octet_string(parameterName("info"), info.baseAddress, info.count),
                            OSSL_PARAM_construct_end(),
                        ]
                        return EVP_KDF_derive(context, &derived, derived.count, parameters) == 1
                    }
                }
            }
        }
        guard succeeded else {
            ERR_clear_error()
            return nil
        }
        return SecretBytes(derived)
    }
}

/// Returns the C text of a parameter's name.
///
/// `OSSL_PARAM` keeps the pointer, which a `String` would not keep alive.
func parameterName(_ text: StaticString) -> UnsafePointer<CChar> {
    UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)
}
