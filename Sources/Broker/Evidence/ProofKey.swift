/// The public P-256 key in a proof (RFC 7518 section 6.2.1).
///
/// A point outside the curve is accepted here, because the signature check rejects it. A separate check would take much
/// computing time.
package struct ProofKey: Sendable, Hashable {
    /// The coordinates, 32 bytes each.
    package let x, y: [UInt8]

    /// The names of `jwk` members that only private or symmetric keys have (RFC 7518 section 6, RFC 9449 section 4.3 check 7).
    private static let secretMembers = ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"]

    /// Creates a key from its coordinates; nil unless each of them has 32 bytes.
    package init?(x: [UInt8], y: [UInt8]) {
        guard x.count == 32, y.count == 32 else { return nil }
        self.x = x
        self.y = y
    }

    /// Reads a `jwk`; nil unless it is a public P-256 key.
    ///
    /// Members such as `use` and `key_ops` are ignored.
    init?(_ object: JSONObject) {
        guard !Self.secretMembers.contains(where: { object[$0] != nil }), object["kty"]?.string == "EC",
            object["crv"]?.string == "P-256", let x = object["x"]?.string.flatMap({ Base64URL.decode($0) }),
            let y = object["y"]?.string.flatMap({ Base64URL.decode($0) })
        else { return nil }
        self.init(x: x, y: y)
    }

    /// The JSON text from which the thumbprint is computed.
    ///
    /// The text has the required members, sorted by name (RFC 7638 section 3).
    package var canonical: String {
        #"{"crv":"P-256","kty":"EC","x":"\#(Base64URL.encode(x))","y":"\#(Base64URL.encode(y))"}"#
    }
}
