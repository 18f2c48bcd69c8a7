// Not compiled here: the project's tests run on Linux. Whoever builds it for iOS first, please report.
#if canImport(CryptoKit) && canImport(Security) && !os(Linux)
    import CryptoKit
    import Foundation
    import Security

    /// A key of this device's Secure Enclave, which nobody can take out: not with a back-up, not with the device unlocked.
    ///
    /// It asks for no face or finger, since passes are renewed in the background, and it outlives their changes.
    public final class SecureEnclaveProofKey: ProofKey {
        private let service: String
        private let account: String
        private let accessGroup: String?

        /// Creates a key under a service's name, the app's own by default; it is made by the first sign-in.
        ///
        /// An app's extensions and widgets that share its session share its key by an `accessGroup`.
        public init(
            service: String = Bundle.main.bundleIdentifier ?? "coatcheck", account: String = "coatcheck-key",
            accessGroup: String? = nil
        ) {
            self.service = service
            self.account = account
            self.accessGroup = accessGroup
        }

        /// Returns the public key; nil where there is none, as on a device that a back-up was restored to.
        public func publicKey() async throws -> ProofPublicKey? {
            try stored().flatMap { ProofPublicKey(x963: $0.publicKey.x963Representation) }
        }

        /// Makes a key in the Secure Enclave, and keeps the reference that only this device can use.
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

        /// Returns the key; nil where there is none, or another device's.
        ///
        /// Throws while the device is locked since its start.
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
            /// The status that it gave.
            public let status: OSStatus
        }
    }
#endif
