import Broker
import Crypto
import JWTKit

/// The setting `profile`: a published set of rules that a client follows completely.
package enum ConformanceProfile: String, Sendable, CaseIterable {
    /// The FAPI 2.0 Security Profile.
    case fapi2

    /// The algorithms that the profile permits for id_tokens (section 5.4.1).
    package static let algorithms: [SignatureAlgorithm] = [.ps256, .es256, .edDSA]
    /// The smallest and the largest clock skew that the profile allows.
    package static let leeways: ClosedRange<Duration> = .seconds(10) ... .seconds(60)
}

extension WireSettings {
    /// Applies the values that a profile requires; settings in the file override them, and are then checked against the
    /// profile.
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
    /// Whether this is an RSA key under 2048 bits, which the broker refuses for signing.
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
