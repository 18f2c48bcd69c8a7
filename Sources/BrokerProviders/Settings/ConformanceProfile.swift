import Broker
import Crypto
import JWTKit

/// The setting `profile`: a published set of rules that a client keeps to as a whole.
package enum ConformanceProfile: String, Sendable, CaseIterable {
    /// The FAPI 2.0 Security Profile.
    case fapi2

    /// The algorithms that it lets an id_token be signed with (section 5.4.1).
    package static let algorithms: [SignatureAlgorithm] = [.ps256, .es256, .edDSA]
    /// The clock skew that it has accepted at the least, and at the most.
    package static let leeways: ClosedRange<Duration> = .seconds(10) ... .seconds(60)
}

extension WireSettings {
    /// Takes over what a profile settles; what a file names is laid over it, and held against it.
    package mutating func adopt(_ profile: ConformanceProfile) {
        self.profile = profile
        pushedAuthorization = .required
        assertion.audience = .issuer
        idToken.algorithms = ConformanceProfile.algorithms
        idToken.leeway = ConformanceProfile.leeways.lowerBound
        idToken.issuerTemplate = nil
    }
}

extension SigningKey {
    /// Whether it is an RSA key under 2048 bits, which nothing here signs with.
    package var isTooShort: Bool {
        do {
            _ = try Insecure.RSA.PrivateKey(pem: pem.reveal())
            return false
        } catch CryptoKitError.incorrectParameterSize {
            return true
        } catch {
            return false
        }
    }
}
