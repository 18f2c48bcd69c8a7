/// The public P-256 key of a proof (RFC 7518 section 6.2.1).
///
/// Whether the point is on the curve is found when a signature is verified: that is arithmetic, and costs as much.
package struct ProofKey: Sendable, Hashable {
    /// The coordinates, 32 bytes each.
    package let x, y: [UInt8]

    /// Members that only private or symmetric keys have (RFC 7518 section 6, RFC 9449 section 4.3 check 7).
    private static let secretMembers: Set<String> = ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"]

    /// Creates a key from its coordinates; nil where one has not 32 bytes.
    package init?(x: [UInt8], y: [UInt8]) {
        guard x.count == 32, y.count == 32 else { return nil }
        self.x = x
        self.y = y
    }

    /// Reads a `jwk`; nil where it is no public P-256 key.
    ///
    /// Members that say what a key is for are not looked at.
    init?(_ object: JSONObject) {
        guard Self.secretMembers.isDisjoint(with: object.names), object["kty"]?.string == "EC",
            object["crv"]?.string == "P-256", let x = object["x"]?.string.flatMap({ Base64URL.decode($0) }),
            let y = object["y"]?.string.flatMap({ Base64URL.decode($0) })
        else { return nil }
        self.init(x: x, y: y)
    }

    /// The text that the thumbprint is over (RFC 7638 section 3): the required members in the order of their names, without spaces.
    package var canonical: String {
        #"{"crv":"P-256","kty":"EC","x":"\#(Base64URL.encode(x))","y":"\#(Base64URL.encode(y))"}"#
    }
}
