import Broker
import COpenSSL

/// The reason why an envelope does not open.
///
/// Only tests and diagnosis see this reason. To all other callers, the vault throws `doesNotOpen`, or `unavailable` if the
/// library failed.
package enum EnvelopeFailure: Error, Sendable, Equatable {
    /// The bytes are shorter than any envelope.
    case length
    /// The first byte differs from the format's version.
    case version
    /// The tag does not match, because the key, row, kind or bytes differ.
    case tag
    /// The library failed.
    case library
}

/// The sealed format: version byte, 12-byte random nonce, ciphertext, 16-byte tag (NIST SP 800-38D).
enum Envelope {
    static let version: UInt8 = 1
    static let nonceLength = 12
    static let tagLength = 16
    static let overhead = 1 + nonceLength + tagLength

    /// Returns the associated data: format, kind, key id and row.
    ///
    /// The envelope's tag covers the associated data. So a sealed value that was moved to another row fails to open (SEC-48).
    static func associatedData(kind: SealedKind, keyID: String, row: Digest) -> [UInt8] {
        let id = keyID.utf8
        var data: [UInt8] = []
        data.reserveCapacity(4 + id.count + 32)
        data.append(version)
        data.append(kind.tag)
        data.append(UInt8(truncatingIfNeeded: id.count >> 8))
        data.append(UInt8(truncatingIfNeeded: id.count))
        data.append(contentsOf: id)
        data.append(contentsOf: row.bytes)
        return data
    }

    /// Seals under a 32-byte key with a fresh nonce; returns nil if the generator or the library fails.
    static func seal(
        _ plaintext: [UInt8], key: SecretBytes, associatedData: [UInt8], algorithms: Algorithms
    ) -> [UInt8]? {
        guard let plaintextLength = Int32(exactly: plaintext.count),
            let associatedLength = Int32(exactly: associatedData.count),
            let context = EVP_CIPHER_CTX_new()
        else {
            ERR_clear_error()
            return nil
        }
        defer { EVP_CIPHER_CTX_free(context) }
        var sealed = false
        let envelope = [UInt8](unsafeUninitializedCapacity: overhead + plaintext.count) { buffer, count in
            guard let base = buffer.baseAddress else { return }
            base[0] = version
            let nonce = base + 1
            let body = nonce + nonceLength
            guard SystemRandom.fill(nonce, nonceLength) else { return }
            var written: Int32 = 0
            var finished: Int32 = 0
            sealed =
                key.withBytes { EVP_EncryptInit_ex2(context, algorithms.aes256GCM, $0, nonce, nil) } == 1
                && EVP_EncryptUpdate(context, nil, &written, associatedData, associatedLength) == 1
                && (plaintextLength == 0
                    || EVP_EncryptUpdate(context, body, &written, plaintext, plaintextLength) == 1
                        && written == plaintextLength)
                && EVP_EncryptFinal_ex(context, body + plaintext.count, &finished) == 1 && finished == 0
                && EVP_CIPHER_CTX_ctrl(
                    context, EVP_CTRL_AEAD_GET_TAG, Int32(tagLength), body + plaintext.count) == 1
            count = sealed ? overhead + plaintext.count : 0
        }
        guard sealed else {
            ERR_clear_error()
            return nil
        }
        return envelope
    }

    /// Opens an envelope.
    ///
    /// Plaintext is returned only if the tag matches.
    static func open(
        _ envelope: [UInt8], key: SecretBytes, associatedData: [UInt8], algorithms: Algorithms
    ) throws(EnvelopeFailure) -> [UInt8] {
        guard envelope.count >= overhead else { throw .length }
        guard envelope.first == version else { throw .version }
        let length = envelope.count - overhead
        guard let ciphertextLength = Int32(exactly: length),
            let associatedLength = Int32(exactly: associatedData.count),
            let context = EVP_CIPHER_CTX_new()
        else {
            ERR_clear_error()
            throw .library
        }
        defer { EVP_CIPHER_CTX_free(context) }
        var failure: EnvelopeFailure? = .library
        let plaintext = envelope.withUnsafeBufferPointer { envelope in
            // Make room for one byte more than the plaintext, because OpenSSL needs an address even for an empty plaintext.
            [UInt8](unsafeUninitializedCapacity: length + 1) { buffer, count in
                guard let base = envelope.baseAddress, let out = buffer.baseAddress else { return }
                let nonce = base + 1
                let body = nonce + nonceLength
                var tag: [UInt8] = Array(UnsafeBufferPointer(start: body + length, count: tagLength))
                var written: Int32 = 0
                var finished: Int32 = 0
                let prepared =
                    key.withBytes { EVP_DecryptInit_ex2(context, algorithms.aes256GCM, $0, nonce, nil) } == 1
                    && EVP_DecryptUpdate(context, nil, &written, associatedData, associatedLength) == 1
                    && (ciphertextLength == 0
                        || EVP_DecryptUpdate(context, out, &written, body, ciphertextLength) == 1
                            && written == ciphertextLength)
                    && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(tagLength), &tag) == 1
                guard prepared else { return }
                guard EVP_DecryptFinal_ex(context, out + length, &finished) == 1, finished == 0 else {
                    OPENSSL_cleanse(out, length)
                    failure = .tag
                    return
                }
                failure = nil
                count = length
            }
        }
        if let failure {
            ERR_clear_error()
            throw failure
        }
        return plaintext
    }
}

/// The purpose of a subkey.
///
/// Each purpose has its own HKDF label, and therefore its own key (SEC-110).
enum Purpose {
    case seal(SealedKind)
    case index(IndexKind)
    case sessionToken

    /// The `info` parameter of HKDF for the purpose.
    ///
    /// A label must never change, because all values under its key would become unreadable.
    var label: [UInt8] {
        switch self {
        case .seal(let kind): Array("coatcheck/v1/seal/\(kind.rawValue)".utf8)
        case .index(let kind): Array("coatcheck/v1/index/\(kind.rawValue)".utf8)
        case .sessionToken: Array("coatcheck/v1/session-token".utf8)
        }
    }
}

extension SealedKind {
    /// The kind's byte in the associated data.
    ///
    /// Stored values contain this byte, so it never changes. A new kind gets a new byte.
    var tag: UInt8 {
        switch self {
        case .login: 1
        case .session: 2
        case .tokens: 3
        case .registration: 4
        case .outcome: 5
        case .outbox: 6
        case .presence: 7
        case .targetToken: 8
        }
    }
}
