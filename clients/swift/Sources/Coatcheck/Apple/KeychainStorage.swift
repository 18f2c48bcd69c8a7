// Compiled here against stubs of Apple's frameworks, but never run here. Please report the result of your first run.
#if canImport(Security)
    import Foundation
    import Security

    /// A storage for the credentials in this device's keychain.
    ///
    /// The item is never synchronised, and its backups can be restored only to this device.
    public final class KeychainStorage: CredentialStorage {
        private let service: String
        private let account: String
        private let accessGroup: String?

        /// Creates a storage under a service's name.
        ///
        /// The default is the app's bundle identifier.
        ///
        /// For two accounts on one device, create two storages with different `account` values. An `accessGroup` shares the
        /// item with the app's extensions and widgets.
        public init(
            service: String = Bundle.main.bundleIdentifier ?? "coatcheck", account: String = "coatcheck",
            accessGroup: String? = nil
        ) {
            self.service = service
            self.account = account
            self.accessGroup = accessGroup
        }

        private var query: [String: Any] {
            var query: [String: Any] = [
                kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: service,
                kSecAttrAccount as String: account,
            ]
            query[kSecAttrAccessGroup as String] = accessGroup
            return query
        }

        /// Returns the credentials from the keychain, or nil if the item is missing or holds no credentials.
        ///
        /// Throws if the device has not been unlocked since its start.
        public func read() throws -> Credentials? {
            var asked = query
            asked[kSecReturnData as String] = true
            var found: CFTypeRef?
            let status = SecItemCopyMatching(asked as CFDictionary, &found)
            if status == errSecItemNotFound { return nil }
            guard status == errSecSuccess, let data = found as? Data else { throw Failure(status: status) }
            return try? JSONDecoder().decode(Credentials.self, from: data)
        }

        /// Stores the credentials in the keychain, or deletes them there.
        public func write(_ credentials: Credentials?) throws {
            guard let credentials else {
                SecItemDelete(query as CFDictionary)
                return
            }
            let values: [String: Any] = [
                kSecValueData as String: try JSONEncoder().encode(credentials),
                kSecAttrAccessible as String: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
            ]
            var status = SecItemUpdate(query as CFDictionary, values as CFDictionary)
            if status == errSecItemNotFound {
                status = SecItemAdd(query.merging(values) { $1 } as CFDictionary, nil)
            }
            guard status == errSecSuccess else { throw Failure(status: status) }
        }

        /// A refusal of the keychain.
        public struct Failure: Error, Sendable {
            /// The keychain's status code.
            public let status: OSStatus
        }
    }
#endif
