// Compiled here against stubs of Apple's frameworks, but never run here. Please report the result of your first run.
#if canImport(CryptoKit) && canImport(LocalAuthentication) && canImport(Security)
    import CryptoKit
    import Foundation
    import LocalAuthentication
    import Security

    /// A key in this device's Secure Enclave that asks for the user's presence before each signature.
    ///
    /// Use it for ``Coatcheck/registerPresenceKey()``. The session's own key is a ``SecureEnclaveProofKey`` with a
    /// different account.
    public final class SecureEnclavePresenceKey: ProofKey {
        /// The ways in which the device can check the user.
        public enum Asking: Sendable {
            /// A face or a finger, or else the device's code.
            ///
            /// The key stays valid if another face or finger is enrolled.
            case user
            /// A face or a finger that was enrolled when the key was made. The device's code is refused.
            ///
            /// If another face or finger is enrolled, the key becomes useless.
            case enrolledBiometry
        }

        private let service: String
        private let account: String
        private let asking: Asking
        private let reason: String

        /// Creates a key under a service's name.
        ///
        /// The system's prompt shows `reason`. The default service is the app's bundle identifier.
        public init(
            reason: String, asking: Asking = .user, service: String = Bundle.main.bundleIdentifier ?? "coatcheck",
            account: String = "coatcheck-presence"
        ) {
            self.reason = reason
            self.asking = asking
            self.service = service
            self.account = account
        }

        /// Returns the public key without a prompt, or nil if the key is missing or belongs to another device.
        public func publicKey() async throws -> ProofPublicKey? {
            try stored(LAContext()).flatMap { ProofPublicKey(x963: $0.publicKey.x963Representation) }
        }

        /// Makes a key in the Secure Enclave.
        ///
        /// The device must have a code.
        public func make() async throws -> ProofPublicKey {
            let flags: SecAccessControlCreateFlags =
                switch asking {
                case .user: [.privateKeyUsage, .userPresence]
                case .enrolledBiometry: [.privateKeyUsage, .biometryCurrentSet]
                }
            var fault: Unmanaged<CFError>?
            guard
                SecureEnclave.isAvailable,
                let access = SecAccessControlCreateWithFlags(
                    nil, kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly, flags, &fault)
            else { throw Failure(status: errSecUnimplemented) }
            let key = try SecureEnclave.P256.Signing.PrivateKey(accessControl: access)
            guard let known = ProofPublicKey(x963: key.publicKey.x963Representation) else {
                throw Failure(status: errSecInvalidKeyRef)
            }
            SecItemDelete(query as CFDictionary)
            // The reference to the key is always readable. Only the use of the key needs the user.
            let values: [String: Any] = [
                kSecValueData as String: key.dataRepresentation,
                kSecAttrAccessible as String: kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly,
            ]
            let status = SecItemAdd(query.merging(values) { $1 } as CFDictionary, nil)
            guard status == errSecSuccess else { throw Failure(status: status) }
            return known
        }

        /// Asks for the user's presence, then signs.
        public func signature(over bytes: Data) async throws -> Data {
            // Each signature needs a new context. Otherwise the answer to one prompt could also count for the next prompt.
            let context = LAContext()
            context.localizedReason = reason
            context.touchIDAuthenticationAllowableReuseDuration = 0
            guard let key = try stored(context) else { throw CoatcheckError.keyLost }
            let prompt = Prompt(key: key, context: context)
            // The call blocks until the user reacts, so it must not run on a thread of Swift's own pool.
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    DispatchQueue.global(qos: .userInitiated).async {
                        continuation.resume(
                            with: Result { try prompt.key.signature(for: bytes).rawRepresentation }.mapError(Self.named)
                        )
                    }
                }
            } onCancel: {
                prompt.context.invalidate()
            }
        }

        /// The key and the context of one prompt.
        ///
        /// Only one thread signs with the key. Another thread may invalidate the context meanwhile, but does nothing else.
        private struct Prompt: @unchecked Sendable {
            let key: SecureEnclave.P256.Signing.PrivateKey
            let context: LAContext
        }

        /// Maps the errors of a prompt that was refused or closed to ``CoatcheckError/cancelled``, and a missing key to
        /// ``CoatcheckError/keyLost``.
        private static func named(_ error: any Error) -> any Error {
            let error = error as NSError
            if error.domain == LAErrorDomain {
                let no: [LAError.Code] = [.userCancel, .systemCancel, .appCancel, .userFallback, .authenticationFailed]
                return no.contains { $0.rawValue == error.code } ? CoatcheckError.cancelled : error
            }
            if error.code == Int(errSecUserCanceled) { return CoatcheckError.cancelled }
            return error.code == Int(errSecItemNotFound) ? CoatcheckError.keyLost : error
        }

        private func stored(_ context: LAContext) throws -> SecureEnclave.P256.Signing.PrivateKey? {
            var asked = query
            asked[kSecReturnData as String] = true
            var found: CFTypeRef?
            let status = SecItemCopyMatching(asked as CFDictionary, &found)
            if status == errSecItemNotFound { return nil }
            guard status == errSecSuccess, let data = found as? Data else { throw Failure(status: status) }
            return try? SecureEnclave.P256.Signing.PrivateKey(dataRepresentation: data, authenticationContext: context)
        }

        private var query: [String: Any] {
            [
                kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: service,
                kSecAttrAccount as String: account,
            ]
        }

        /// A refusal of the keychain or the Secure Enclave.
        public struct Failure: Error, Sendable {
            /// The status code of the failure.
            public let status: OSStatus
        }
    }
#endif
