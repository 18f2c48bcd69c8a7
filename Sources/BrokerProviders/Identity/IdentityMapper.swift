import Broker

/// Reads subject and claims from an answer, at the configured pointers.
enum IdentityMapper {
    /// Returns the subject at a pointer: a text, or (for APIs) a whole number as text; throws `identityRejected` otherwise.
    static func subject(
        _ object: JSONObject, at pointer: String, acceptsNumbers: Bool = true
    ) throws(ProviderFailure) -> String {
        let value = object.value(at: pointer)
        let text = value?.string ?? (acceptsNumbers ? value?.integer.map { String($0) } : nil)
        guard let text, (1...255).contains(text.utf8.count), text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
            throw .identityRejected(detail: "no subject")
        }
        return text
    }

    /// The claims that are only shown to people.
    ///
    /// Half a surrogate pair in one of these claims becomes U+FFFD.
    static let displayClaims: Set<String> = ["name", "given_name", "family_name", "middle_name", "nickname"]

    /// Returns the wanted claims that the answer has, if identities may contain values of their type.
    ///
    /// The value of `email_verified` becomes a boolean (SEC-33). If the configuration names only the e-mail address, the
    /// nearest `email_verified` in the objects around the address is read. If that value is not true, `email_verified: false`
    /// is added. Otherwise, the address would count as verified.
    static func claims(
        _ object: JSONObject, _ wanted: [(name: String, pointer: String)]
    ) -> [(name: String, value: JSONValue)] {
        var claims: [(name: String, value: JSONValue)] = wanted.compactMap { entry in
            if let text = object.halvedTexts[entry.pointer], entry.name != "email_verified" {
                // Replacing half a surrogate pair could make two different texts equal. So the claim is dropped, unless it is
                // only shown to people.
                return displayClaims.contains(entry.name) && isPlain(.string(text)) ? (entry.name, .string(text)) : nil
            }
            guard let value = object.value(at: entry.pointer) else { return nil }
            if entry.name == "email_verified" { return (entry.name, .bool(EmailVerdict.isVerified(value))) }
            return isPlain(value) ? (entry.name, value) : nil
        }
        if let address = wanted.first(where: { $0.name == "email" }), claims.contains(where: { $0.name == "email" }),
            !claims.contains(where: { $0.name == "email_verified" }),
            let verdict = verdict(on: address.pointer, in: object), !EmailVerdict.isVerified(verdict)
        {
            claims.append(("email_verified", .bool(false)))
        }
        return claims
    }

    /// Returns the nearest `email_verified` in the objects around an e-mail address.
    private static func verdict(on pointer: String, in object: JSONObject) -> JSONValue? {
        var place = pointer[...]
        while let slash = place.lastIndex(of: "/") {
            place = place[..<slash]
            if let verdict = object.value(at: place + "/email_verified") { return verdict }
        }
        return nil
    }

    /// Returns the claims of the first source, and the further claims that only the second source has.
    ///
    /// `email_verified` comes from the same source as the e-mail address. If that source has no `email_verified`, the other
    /// source's value is used if it is false, but never if it is true.
    static func merged(
        _ first: [(name: String, value: JSONValue)], with second: [(name: String, value: JSONValue)]
    ) -> [(name: String, value: JSONValue)] {
        func value(_ name: String, _ claims: [(name: String, value: JSONValue)]) -> JSONValue? {
            claims.first { $0.name == name }?.value
        }
        let known = Set(first.map(\.name))
        let claims = (first + second.filter { !known.contains($0.name) }).filter { $0.name != "email_verified" }
        let (own, other) = known.contains("email") || value("email", second) == nil ? (first, second) : (second, first)
        var verdict = value("email_verified", own)
        if verdict == nil, value("email_verified", other) == .bool(false) { verdict = .bool(false) }
        return claims + (verdict.map { [("email_verified", $0)] } ?? [])
    }

    private static func isPlain(_ value: JSONValue) -> Bool {
        switch value {
        case .string(let text): text.utf8.count <= 2048
        case .number, .bool: true
        case .array(let items): items.count <= 64 && items.allSatisfy { ($0.string?.utf8.count ?? .max) <= 512 }
        case .object, .null: false
        }
    }

    /// Returns the callback parameters with these names, which are stored as unverified claims (SEC-16).
    static func unverified(_ context: IdentityContext, keeping names: [String]) -> [(name: String, value: JSONValue)] {
        var kept: [(name: String, value: JSONValue)] = []
        for parameter in context.callback where names.contains(parameter.name) && parameter.value.utf8.count <= 2048 {
            if parameter.name == "user", let user = appleUser(parameter.value) {
                kept += user
            } else {
                kept.append((parameter.name, .string(parameter.value)))
            }
        }
        return kept
    }

    /// Reads the user's name from the JSON text `user` in Apple's callback.
    ///
    /// Apple sends the name only at the first sign-in.
    private static func appleUser(_ text: String) -> [(name: String, value: JSONValue)]? {
        guard let user = try? JSONParser.parseObject(Array(text.utf8), maximumBytes: 2048, maximumDepth: 3),
            user["name"]?.object != nil
        else { return nil }
        let parts = ["/name/firstName", "/name/lastName"].compactMap { user.value(at: $0)?.string }.filter {
            !$0.isEmpty
        }
        return parts.isEmpty ? [] : [("name", .string(parts.joined(separator: " ")))]
    }
}
