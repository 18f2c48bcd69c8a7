/// Peculiar forms that real providers send although no specification describes them.
///
/// Each form is a fault with a name (docs/apps/sandbox.md).
enum Quirks {
    static let names: Set<String> = [
        "null-claims", "verified-text", "large-claims", "half-emoji", "duplicate-claim", "null-header", "x5c-header",
        "alg-ed25519", "jwks-nulls", "jwks-padded", "jwks-base64", "jwks-twice", "jwks-strangers",
        "discovery-unusable", "discovery-empty", "userinfo-not-yet", "userinfo-error-ok", "userinfo-half-emoji",
        "userinfo-verified-text",
        "byte-order-mark", "x-gzip", "gzip-members", "raw-deflate", "empty-gzip", "dead-grant", "duplicate-scope",
    ]

    /// A name that ends in the first half of a surrogate pair.
    private static let halfEmoji = JSON.raw(#""Ana \ud83d""#)

    /// Changes the claims of an id_token as a fault demands.
    static func change(_ claims: inout JSON, by fault: Fault) {
        switch fault.name {
        case "null-claims":
            claims = claims.with(null: ["azp", "at_hash", "nbf", "events"])
        case "verified-text": claims["email_verified"] = fault.value ?? "false"
        case "large-claims":
            claims["picture"] = .string(
                "data:image/png;base64," + String(repeating: "A", count: fault.value?.number ?? 100_000))
        case "half-emoji": claims["name"] = halfEmoji
        case "duplicate-claim":
            if case .object(let all) = claims, let first = all.last { claims = .object(all + [first]) }
        default: break
        }
    }

    /// Changes the header of an id_token as the faults demand.
    static func change(header: inout JSON, by faults: Faults) {
        if faults.has("alg-ed25519") { header["alg"] = "Ed25519" }
        if faults.has("x5c-header") {
            header["x5c"] = .array((0..<3).map { _ in .string(String(repeating: "MIIC", count: 450)) })
        }
        if faults.has("null-header") { header = header.with(null: ["typ", "crit"]) }
    }

    /// Changes the unused endpoints of a metadata document as the faults demand.
    static func change(metadata: inout JSON, by faults: Faults) {
        let unused = [
            "introspection_endpoint", "end_session_endpoint", "registration_endpoint", "mtls_endpoint_aliases",
            "device_authorization_endpoint",
        ]
        if let fault = faults["discovery-unusable"] {
            for name in unused { metadata[name] = fault.value ?? "/relative" }
        }
        if faults.has("discovery-empty") { for name in unused + ["revocation_endpoint"] { metadata[name] = "" } }
    }

    /// Changes a key set as the faults demand.
    static func keys(_ keys: [JSON], _ faults: Faults) async throws -> [JSON] {
        var keys = keys
        if faults.has("jwks-nulls") {
            keys = keys.map { $0.with(null: ["x5c", "x5t", "issuer"]).over("key_ops", .array([])) }
        }
        if faults.has("jwks-padded") {
            keys = keys.map { key in
                var key = key
                for name in ["n", "x", "y"] {
                    guard let text = key[name]?.text, text.utf8.count % 4 > 0 else { continue }
                    key[name] = .string(text + String(repeating: "=", count: 4 - text.utf8.count % 4))
                }
                return key
            }
        }
        if faults.has("jwks-base64") {
            keys = keys.map { key in
                var key = key
                for name in ["n", "x", "y"] {
                    guard let text = key[name]?.text else { continue }
                    let plain = text.replacing("-", with: "+").replacing("_", with: "/")
                    key[name] = .string(plain + String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4))
                }
                return key
            }
        }
        if faults.has("jwks-twice") { keys += keys }
        if faults.has("jwks-strangers") {
            var strangers: [JSON] = []
            for key in keys {
                guard let algorithm = key["alg"]?.text else { continue }
                let stranger = try await SigningKey.make(algorithm: algorithm, generation: -1)
                strangers.append(
                    stranger.publicJWK.merging(["alg": .string(algorithm), "use": "sig", "kid": key["kid"] ?? "k"]))
            }
            keys = strangers + keys
        }
        return keys
    }

    /// Changes the answer of an identity endpoint as the faults demand.
    static func identity(_ answer: JSON, _ faults: Faults) -> JSON {
        var answer = answer
        if let fault = faults["userinfo-error-ok"] { answer["error"] = fault.value ?? ["code": "ok", "message": ""] }
        if faults.has("userinfo-half-emoji") { answer["name"] = halfEmoji }
        if let fault = faults["userinfo-verified-text"] { answer["email_verified"] = fault.value ?? "false" }
        return answer
    }

    /// A content coding of an answer's body.
    struct Coding {
        /// The value of `Content-Encoding`; nil if the field is absent.
        let name: String?
        let body: ([UInt8]) -> [UInt8]
    }

    /// Returns the content coding that the faults demand; nil for none.
    static func coding(_ faults: Faults) -> Coding? {
        if faults.has("byte-order-mark") { return Coding(name: nil) { [0xEF, 0xBB, 0xBF] + $0 } }
        if faults.has("x-gzip") { return Coding(name: "x-gzip", body: GzipBomb.member) }
        if faults.has("gzip-members") {
            return Coding(name: "gzip") { body in
                let half = body.count / 2
                return GzipBomb.member(Array(body[..<half])) + GzipBomb.member(Array(body[half...]))
            }
        }
        if faults.has("raw-deflate") { return Coding(name: "deflate", body: GzipBomb.stored) }
        if faults.has("empty-gzip") { return Coding(name: "gzip") { _ in [] } }
        return nil
    }
}

extension JSON {
    /// Returns the object with these members set to null.
    ///
    /// The null is `raw` text, because `merging` would remove a member with an ordinary null.
    fileprivate func with(null names: [String]) -> JSON { names.reduce(self) { $0.over($1, .raw("null")) } }

    fileprivate func over(_ name: String, _ value: JSON) -> JSON {
        var object = self
        object[name] = value
        return object
    }
}
