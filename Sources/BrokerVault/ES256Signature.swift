import Broker
import COpenSSL

/// Makes and verifies ECDSA signatures with P-256 and SHA-256 (RFC 7518 section 3.4).
enum ES256Signature {
    /// Returns whether `signature` is the key's signature over the message.
    ///
    /// `signature` consists of `r` and `s`, of 32 bytes each. Returns false if the key's point is off the curve or the
    /// library fails.
    static func isValid(_ signature: [UInt8], over message: [UInt8], by key: ProofKey) -> Bool {
        guard signature.count == 64 else { return false }
        let encoded = der(signature)
        defer { ERR_clear_error() }
        guard let key = libraryKey(key, scalar: nil) else { return false }
        defer { EVP_PKEY_free(key) }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        guard EVP_DigestVerifyInit_ex(context, nil, "SHA256", nil, nil, key, nil) == 1 else { return false }
        return EVP_DigestVerify(context, encoded, encoded.count, message, message.count) == 1
    }

    /// `EVP_PKEY_PUBLIC_KEY`, a macro that Swift cannot import.
    private static let publicKeySelection =
        OSSL_KEYMGMT_SELECT_DOMAIN_PARAMETERS | OSSL_KEYMGMT_SELECT_OTHER_PARAMETERS | OSSL_KEYMGMT_SELECT_PUBLIC_KEY

    /// `EVP_PKEY_KEYPAIR`.
    private static let pairSelection = publicKeySelection | OSSL_KEYMGMT_SELECT_PRIVATE_KEY

    /// Returns a key's signature, `r` and `s` of 32 bytes each; nil if the key is invalid or the library fails.
    static func make(over message: [UInt8], by key: ProofKeyPair) -> [UInt8]? {
        guard var scalar = Base64URL.decode(key.scalar.reveal()), scalar.count == 32 else { return nil }
        defer { wipe(&scalar) }
        defer { ERR_clear_error() }
        guard let key = libraryKey(key.publicKey, scalar: scalar) else { return nil }
        defer { EVP_PKEY_free(key) }
        guard let context = EVP_MD_CTX_new() else { return nil }
        defer { EVP_MD_CTX_free(context) }
        guard EVP_DigestSignInit_ex(context, nil, "SHA256", nil, nil, key, nil) == 1 else { return nil }
        // The longest DER form of a signature has 72 bytes (two integers of at most 33 bytes, with heads).
        var length = 80
        var encoded = [UInt8](repeating: 0, count: length)
        guard EVP_DigestSign(context, &encoded, &length, message, message.count) == 1 else { return nil }
        return raw(encoded.prefix(length))
    }

    /// Returns OpenSSL's object for the key.
    ///
    /// If `scalar` is given, the object is a key pair, and otherwise a public key. Returns nil if the point is off the curve.
    private static func libraryKey(_ key: ProofKey, scalar: [UInt8]?) -> OpaquePointer? {
        guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        guard EVP_PKEY_fromdata_init(context) == 1 else { return nil }
        var group = Array("P-256".utf8CString)
        // An uncompressed point (SEC 1 section 2.3.3).
        var point = [0x04] + key.x + key.y
        // OpenSSL expects numbers in the machine's byte order. All supported machines store the lowest byte first.
        var number = Array((scalar ?? []).reversed())
        defer { wipe(&number) }
        let selection = scalar == nil ? publicKeySelection : pairSelection
        var made: OpaquePointer?
        let succeeded = group.withUnsafeMutableBufferPointer { group in
            point.withUnsafeMutableBufferPointer { point in
                number.withUnsafeMutableBufferPointer { number in
                    var parameters = [
                        OSSL_PARAM_construct_utf8_string(parameterName("group"), group.baseAddress, 0),
                        OSSL_PARAM_construct_octet_string(parameterName("pub"), point.baseAddress, point.count),
                    ]
                    if !number.isEmpty {
                        parameters.append(
                            OSSL_PARAM_construct_BN(parameterName("priv"), number.baseAddress, number.count))
                    }
                    parameters.append(OSSL_PARAM_construct_end())
                    return EVP_PKEY_fromdata(context, &made, selection, &parameters) == 1
                }
            }
        }
        guard succeeded else {
            EVP_PKEY_free(made)
            return nil
        }
        return made
    }

    /// Returns the DER form that the library reads (RFC 3279 section 2.2.3), a sequence of two positive integers.
    private static func der(_ signature: [UInt8]) -> [UInt8] {
        let body = integer(signature[..<32]) + integer(signature[32...])
        // The body has at most 70 bytes (two integers of at most 33 bytes, with heads), so its length fits into one byte.
        return [0x30, UInt8(body.count)] + body
    }

    /// Returns `r` and `s` of a signature in DER form; nil for other input.
    private static func raw(_ encoded: ArraySlice<UInt8>) -> [UInt8]? {
        var rest = encoded
        guard rest.popFirst() == 0x30, let length = rest.popFirst(), length < 0x80, Int(length) == rest.count,
            let r = positive(&rest), let s = positive(&rest), rest.isEmpty
        else { return nil }
        return r + s
    }

    /// Removes a DER integer from the beginning of `rest`, and returns it as 32 bytes; nil if it is malformed or longer than 32
    /// bytes.
    private static func positive(_ rest: inout ArraySlice<UInt8>) -> [UInt8]? {
        guard rest.popFirst() == 0x02, let length = rest.popFirst(), length < 0x80, rest.count >= Int(length) else {
            return nil
        }
        let digits = rest.prefix(Int(length)).drop { $0 == 0 }
        rest = rest.dropFirst(Int(length))
        guard digits.count <= 32 else { return nil }
        return [UInt8](repeating: 0, count: 32 - digits.count) + digits
    }

    private static func integer(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        let digits = bytes.drop { $0 == 0 }
        let sign: [UInt8] = (digits.first ?? 0x80) & 0x80 != 0 ? [0] : []
        return [0x02, UInt8(digits.count + sign.count)] + sign + digits
    }
}
