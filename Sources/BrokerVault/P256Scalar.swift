import Broker
import COpenSSL

/// Makes P-256 key pairs from seeds.
enum P256Scalar {
    /// Returns the key pair of a seed; nil if the library fails.
    ///
    /// The first candidate for the scalar is the seed, or the seed's digest if the seed is not 32 bytes long. About one
    /// candidate in 2^32 is out of the range of scalars. The next candidate is then the digest of the previous one.
    static func keyPair(of seed: [UInt8], algorithms: Algorithms) -> ProofKeyPair? {
        defer { ERR_clear_error() }
        guard let group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1) else { return nil }
        defer { EC_GROUP_free(group) }
        guard var candidate = seed.count == 32 ? seed : algorithms.digest(seed) else { return nil }
        defer { wipe(&candidate) }
        for _ in 0..<8 {
            if let key = point(of: candidate, on: group) {
                return ProofKeyPair(publicKey: key, scalar: Secret(Base64URL.encode(candidate)))
            }
            guard let next = algorithms.digest(candidate) else { return nil }
            candidate = next
        }
        return nil
    }

    /// Returns the generator's multiple by a scalar; nil if the scalar is zero or not below the group's order.
    private static func point(of scalar: [UInt8], on group: OpaquePointer) -> ProofKey? {
        guard let number = BN_bin2bn(scalar, Int32(scalar.count), nil) else { return nil }
        defer { BN_clear_free(number) }
        guard BN_is_zero(number) == 0, let order = EC_GROUP_get0_order(group), BN_cmp(number, order) < 0,
            let point = EC_POINT_new(group)
        else { return nil }
        defer { EC_POINT_free(point) }
        var encoded = [UInt8](repeating: 0, count: 65)
        guard EC_POINT_mul(group, point, number, nil, nil, nil) == 1,
            EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, &encoded, encoded.count, nil) == 65
        else { return nil }
        return ProofKey(x: Array(encoded[1...32]), y: Array(encoded[33...]))
    }
}
