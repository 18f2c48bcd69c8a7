import Broker

/// Reads who signed in from Clever's answers.
enum CleverIdentity {
    /// Returns the user's id in an answer of `/me` or of the profile.
    static func id(_ object: JSONObject) throws(ProviderFailure) -> String {
        try IdentityMapper.subject(object, at: "/data/id", acceptsNumbers: false)
    }

    /// Returns the path of the profile: the canonical link of `/me`, which names the API's version, else version 3's.
    ///
    /// It is appended to the configured base, so nothing in it may lead elsewhere.
    static func profilePath(_ me: JSONObject, id: String) throws(ProviderFailure) -> String {
        let links = me["links"]?.array?.compactMap(\.object) ?? []
        let path = links.first { $0["rel"]?.string == "canonical" }?["uri"]?.string ?? "/v3.0/users/" + id
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        let isPlain = path.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            default: "/-_.".utf8.contains(byte)
            }
        }
        guard path.hasPrefix("/v"), path.utf8.count <= 256, isPlain, segments.count == 4, segments.last == id[...],
            !segments.dropFirst().contains(where: { $0.isEmpty || $0 == "." || $0 == ".." })
        else { throw .identityRejected(detail: "Clever: no usable canonical link") }
        return path
    }

    /// Returns the claims of `/me` and the profile: role, district, name and address.
    static func claims(me: JSONObject, profile: JSONObject) -> [(name: String, value: JSONValue)] {
        // The role stands at the top, inside `data`, or only as a key of `roles`; `user` says nothing.
        let types = [me["type"], me.value(at: "/data/type")].compactMap { $0?.string }.filter { $0 != "user" }
        let role = types.first ?? profile.value(at: "/data/roles")?.object?.names.first
        var claims: [(name: String, value: JSONValue)] = role.map { [("role", .string($0))] } ?? []
        claims += IdentityMapper.claims(me, [("district", "/data/district")])
        claims += name(profile.value(at: "/data/name")?.object)
        return claims + IdentityMapper.claims(profile, [("email", "/data/email")])
    }

    /// Returns the claims of `/userinfo` (or an id_token), whose `name` is an object.
    static func claims(userinfo: JSONObject) -> [(name: String, value: JSONValue)] {
        var claims = IdentityMapper.claims(userinfo, [("role", "/user_type"), ("district", "/district")])
        let names = name(userinfo["name"]?.object)
        claims +=
            names.isEmpty
            ? IdentityMapper.claims(userinfo, [("given_name", "/given_name"), ("family_name", "/family_name")]) : names
        return claims
            + IdentityMapper.claims(userinfo, [("email", "/email"), ("email_verified", "/email_verified")])
    }

    private static func name(_ object: JSONObject?) -> [(name: String, value: JSONValue)] {
        guard let object else { return [] }
        func part(_ name: String) -> String? {
            object[name]?.string.flatMap { $0.isEmpty || $0.utf8.count > 256 ? nil : $0 }
        }
        let whole = ["first", "middle", "last"].compactMap(part).joined(separator: " ")
        let parts = [("given_name", part("first")), ("family_name", part("last"))]
        return (whole.isEmpty ? [] : [("name", .string(whole))])
            + parts.compactMap { name, value in value.map { (name, .string($0)) } }
    }
}
