import COpenSSL

/// HMAC-SHA-256 under one key.
///
/// The keyed state is made once and copied for each use, which halves the cost.
final class KeyedHash: Sendable {
    /// Keyed in `init` and never updated afterwards: every use works on a copy.
    private nonisolated(unsafe) let template: OpaquePointer

    /// Keys the hash, or returns nil when the library fails.
    init?(_ algorithms: Algorithms, key: SecretBytes) {
        guard let context = EVP_MAC_CTX_new(algorithms.hmac) else {
            ERR_clear_error()
            return nil
        }
        var digestName = Array("SHA256".utf8CString)
        let length = key.count
        let keyed = digestName.withUnsafeMutableBufferPointer { digestName in
            let parameters = [
                OSSL_PARAM_construct_utf8_string(parameterName("digest"), digestName.baseAddress, 0),
                OSSL_PARAM_construct_end(),
            ]
            return key.withBytes { EVP_MAC_init(context, $0, length, parameters) == 1 }
        }
        guard keyed else {
            ERR_clear_error()
            EVP_MAC_CTX_free(context)
            return nil
        }
        template = context
    }

    deinit { EVP_MAC_CTX_free(template) }

    /// Returns the 32 bytes for the concatenation of the parts, or nil when the library fails.
    func code(of parts: [UInt8]...) -> [UInt8]? {
        guard let context = EVP_MAC_CTX_dup(template) else {
            ERR_clear_error()
            return nil
        }
        defer { EVP_MAC_CTX_free(context) }
        for part in parts {
            let updated = part.withUnsafeBufferPointer { part in
                part.isEmpty || EVP_MAC_update(context, part.baseAddress, part.count) == 1
            }
            guard updated else {
                ERR_clear_error()
                return nil
            }
        }
        var succeeded = false
        let code = [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
            var length = 0
            succeeded = EVP_MAC_final(context, buffer.baseAddress, &length, 32) == 1 && length == 32
            count = succeeded ? 32 : 0
        }
        guard succeeded else {
            ERR_clear_error()
            return nil
        }
        return code
    }
}
