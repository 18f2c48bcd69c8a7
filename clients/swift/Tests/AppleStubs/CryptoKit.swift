// swift-format-ignore-file
// CryptoKit framework: SecureEnclave.isAvailable, SecureEnclave.P256.Signing.PrivateKey, P256.Signing.PublicKey
// (x963Representation), P256.Signing.ECDSASignature (rawRepresentation), SHA256.hash(data:). The key and the signature are not
// Sendable here, so the compiler refuses library code that needs them to be Sendable.
import Foundation
import LocalAuthentication
import Security

public enum P256 {
    public enum Signing {
        public struct PublicKey: Sendable {
            public var x963Representation: Data { Data() }
        }
        public struct ECDSASignature {
            public var rawRepresentation: Data { Data() }
        }
    }
}

public enum SecureEnclave {
    public static var isAvailable: Bool { false }

    public enum P256 {
        public enum Signing {
            public struct PrivateKey {
                private let context: LAContext?

                public init(
                    compactRepresentable: Bool = true, accessControl: SecAccessControl, authenticationContext: LAContext? = nil
                ) throws { context = authenticationContext }

                public init(dataRepresentation: Data, authenticationContext: LAContext? = nil) throws {
                    context = authenticationContext
                }

                public var publicKey: CryptoKit.P256.Signing.PublicKey { CryptoKit.P256.Signing.PublicKey() }
                public var dataRepresentation: Data { Data() }

                public func signature<D: DataProtocol>(for data: D) throws -> CryptoKit.P256.Signing.ECDSASignature {
                    CryptoKit.P256.Signing.ECDSASignature()
                }
            }
        }
    }
}

public struct SHA256Digest: Sequence, Sendable {
    public func makeIterator() -> Array<UInt8>.Iterator { [UInt8]().makeIterator() }
}

public struct SHA256: Sendable {
    public static func hash<D: DataProtocol>(data: D) -> SHA256Digest { SHA256Digest() }
}
