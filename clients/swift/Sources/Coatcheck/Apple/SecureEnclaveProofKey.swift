// Compiled here against stubs of Apple's frameworks, but never run here. Please report the result of your first run.
#if canImport(CryptoKit) && canImport(Security)
    import CryptoKit
    import Foundation
    import Security

    /// A key in this device's Secure Enclave, which cannot be extracted.
    ///
    /// Neither a backup nor an unlocked device reveals the key. It signs without a prompt, because passes are renewed in the
    /// background. It stays valid if a face or finger is enrolled.
    public final class SecureEnclaveProofKey: ProofKey {
        private let service: String
        private let account: String
        private let accessGroup: String?

        /// Creates a key under a service's name.
        ///
        /// The first sign-in makes the key.
        ///
        /// The default service is the app's bundle identifier. Extensions and widgets that share the app's session share
        /// its key through an `accessGroup`.
        public init(
            service: String = Bundle.main.bundleIdentifier ?? "coatcheck", account: String = "coatcheck-key",
            accessGroup: String? = nil
        ) {
            self.service = service
            self.account = account
            self.accessGroup = accessGroup
        }

        /// Returns the public key, or nil if the key is missing, as after a restore from a backup.
        public func publicKey() async throws -> ProofPublicKey? {
            try stored().flatMap { ProofPublicKey(x963: $0.publicKey.x963Representation) }
        }

        /// Makes a key in the Secure Enclave.
        ///
        /// The keychain stores a reference to the key, which only this device can use.
        public func make() async throws -> ProofPublicKey {
            var fault: Unmanaged<CFError>?
            guard
                SecureEnclave.isAvailable,
                let access = SecAccessControlCreateWithFlags(
                    nil, kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly, .privateKeyUsage, &fault)
            else { throw Failure(status: errSecUnimplemented) }
            let key = try SecureEnclave.P256.Signing.PrivateKey(accessControl: access)
            guard let known = ProofPublicKey(x963: key.publicKey.x963Representation) else {
                throw Failure(status: errSecInvalidKeyRef)
            }
            SecItemDelete(query as CFDictionary)
            let values: [String: Any] = [
                kSecValueData as String: key.dataRepresentation,
                kSecAttrAccessible as String: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
            ]
            let status = SecItemAdd(query.merging(values) { $1 } as CFDictionary, nil)
            guard status == errSecSuccess else { throw Failure(status: status) }
            return known
        }

        /// Signs in the Secure Enclave.
        public func signature(over bytes: Data) async throws -> Data {
            guard let key = try stored() else { throw CoatcheckError.keyLost }
            return try key.signature(for: bytes).rawRepresentation
        }

        /// Returns the key, or nil if it is missing or belongs to another device.
        ///
        /// Throws if the device has not been unlocked since its start.
        private func stored() throws -> SecureEnclave.P256.Signing.PrivateKey? {
            var asked = query
            asked[kSecReturnData as String] = true
            var found: CFTypeRef?
            let status = SecItemCopyMatching(asked as CFDictionary, &found)
            if status == errSecItemNotFound { return nil }
            guard status == errSecSuccess, let data = found as? Data else { throw Failure(status: status) }
            return try? SecureEnclave.P256.Signing.PrivateKey(dataRepresentation: data)
        }

        private var query: [String: Any] {
            var query: [String: Any] = [
                kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: service,
                kSecAttrAccount as String: account,
            ]
            query[kSecAttrAccessGroup as String] = accessGroup
            return query
        }

        /// A refusal of the keychain or the Secure Enclave.
        public struct Failure: Error, Sendable {
            /// The status code of the failure.
            public let status: OSStatus
        }
    }
#endif
