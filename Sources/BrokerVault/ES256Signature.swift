import Broker
import COpenSSL

/// Verifies ECDSA signatures with P-256 and SHA-256 (RFC 7518 section 3.4).
enum ES256Signature {
    /// Returns whether `signature`, `r` and `s` of 32 bytes each, is the key's over the message; false for a point that is not on
    /// the curve and where the library fails.
    static func isValid(_ signature: [UInt8], over message: [UInt8], by key: ProofKey) -> Bool {
        guard signature.count == 64 else { return false }
        let encoded = der(signature)
        defer { ERR_clear_error() }
        guard let key = publicKey(key) else { return false }
        defer { EVP_PKEY_free(key) }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        guard EVP_DigestVerifyInit_ex(context, nil, "SHA256", nil, nil, key, nil) == 1 else { return false }
        return EVP_DigestVerify(context, encoded, encoded.count, message, message.count) == 1
    }

    /// `EVP_PKEY_PUBLIC_KEY`, a macro that Swift does not read.
    private static let publicKeySelection =
        OSSL_KEYMGMT_SELECT_DOMAIN_PARAMETERS | OSSL_KEYMGMT_SELECT_OTHER_PARAMETERS | OSSL_KEYMGMT_SELECT_PUBLIC_KEY

    /// Returns the library's key; nil where the point is not on the curve.
    private static func publicKey(_ key: ProofKey) -> OpaquePointer? {
        guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        guard EVP_PKEY_fromdata_init(context) == 1 else { return nil }
        var group = Array("P-256".utf8CString)
        // An uncompressed point (SEC 1 section 2.3.3).
        var point = [0x04] + key.x + key.y
        var made: OpaquePointer?
        let succeeded = group.withUnsafeMutableBufferPointer { group in
            point.withUnsafeMutableBufferPointer { point in
                var parameters = [
                    OSSL_PARAM_construct_utf8_string(parameterName("group"), group.baseAddress, 0),
                    OSSL_PARAM_construct_octet_string(parameterName("pub"), point.baseAddress, point.count),
                    OSSL_PARAM_construct_end(),
                ]
                return EVP_PKEY_fromdata(context, &made, publicKeySelection, &parameters) == 1
            }
        }
        guard succeeded else {
            EVP_PKEY_free(made)
            return nil
        }
        return made
    }

    /// Returns the form that the library reads (RFC 3279 section 2.2.3): a sequence of two positive integers.
    private static func der(_ signature: [UInt8]) -> [UInt8] {
        let body = integer(signature[..<32]) + integer(signature[32...])
        // Twice 33 bytes with their heads: the length is one byte.
        return [0x30, UInt8(body.count)] + body
    }

    private static func integer(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        let digits = bytes.drop { $0 == 0 }
        let sign: [UInt8] = (digits.first ?? 0x80) & 0x80 != 0 ? [0] : []
        return [0x02, UInt8(digits.count + sign.count)] + sign + digits
    }
}
