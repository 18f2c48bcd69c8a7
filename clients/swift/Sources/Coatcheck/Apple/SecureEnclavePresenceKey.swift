// Not compiled here: the project's tests run on Linux. Whoever builds it for iOS first, please report.
#if canImport(CryptoKit) && canImport(LocalAuthentication) && canImport(Security) && !os(Linux)
    import CryptoKit
    import Foundation
    import LocalAuthentication
    import Security

    /// A key of this device's Secure Enclave that signs only when its user is there, each time anew.
    ///
    /// For ``Coatcheck/registerPresenceKey()``; the session's own is a ``SecureEnclaveProofKey``, under another account.
    public final class SecureEnclavePresenceKey: ProofKey {
        /// The ways in which the device knows its user.
        public enum Asking: Sendable {
            /// A face or finger, else the device's code; the key outlives that another is enrolled.
            case user
            /// A face or finger that was enrolled when the key was made, and no code: one more enrolled ends the key.
            case enrolledBiometry
        }

        private let service: String
        private let account: String
        private let asking: Asking
        private let reason: String

        /// Creates a key under a service's name, the app's own by default; `reason` is what the system's prompt says.
        public init(
            reason: String, asking: Asking = .user, service: String = Bundle.main.bundleIdentifier ?? "coatcheck",
            account: String = "coatcheck-presence"
        ) {
            self.reason = reason
            self.asking = asking
            self.service = service
            self.account = account
        }

        /// Returns the public key, without asking; nil where there is none.
        public func publicKey() async throws -> ProofPublicKey? {
            try stored(LAContext()).flatMap { ProofPublicKey(x963: $0.publicKey.x963Representation) }
        }

        /// Makes a key in the Secure Enclave; a device without a code has none.
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
            // The reference may be read without the user: only the key asks.
            let values: [String: Any] = [
                kSecValueData as String: key.dataRepresentation,
                kSecAttrAccessible as String: kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly,
            ]
            let status = SecItemAdd(query.merging(values) { $1 } as CFDictionary, nil)
            guard status == errSecSuccess else { throw Failure(status: status) }
            return known
        }

        /// Asks for the user, then signs.
        public func signature(over bytes: Data) async throws -> Data {
            // A context of its own: an answer to one prompt is none to the next.
            let context = LAContext()
            context.localizedReason = reason
            context.touchIDAuthenticationAllowableReuseDuration = 0
            guard let key = try stored(context) else { throw CoatcheckError.keyLost }
            // It waits for the user, which no thread of Swift's own should.
            return try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { continuation in
                    DispatchQueue.global(qos: .userInitiated).async {
                        continuation.resume(
                            with: Result { try key.signature(for: bytes).rawRepresentation }.mapError(Self.named))
                    }
                }
            } onCancel: {
                context.invalidate()
            }
        }

        /// Names a no of the user's, and a key that a new face or finger has ended.
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
            /// The status that it gave.
            public let status: OSStatus
        }
    }
#endif
