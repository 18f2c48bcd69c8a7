/// A user who can sign in at every provider.
///
/// A user of any name exists, and the control API can override the user's members.
struct SandboxUser: Sendable {
    let name: String
    let json: JSON

    init(name: String, overrides: JSON?) {
        self.name = name
        let title = name.prefix(1).uppercased() + name.dropFirst()
        let digest = Digest256.bytes(name)
        let number = digest.prefix(3).reduce(1) { $0 * 256 + Int($1) }
        let hex = Digest256.hex(digest.prefix(10))
        let code = hex.prefix(11).uppercased()
        var base: JSON = [
            "sub": .string("user-" + name), "id": .int(number), "name": .string(title + " Example"),
            "given_name": .string(title), "family_name": "Example", "email": .string(name + "@example.org"),
            "email_verified": .bool(name != "ben"), "clever_id": .string("65000000" + hex.prefix(16)),
            "clever_user_id": .string("55000000" + hex.prefix(16)), "district": "650000000000000000000d01",
            "role": "student", "merchant_id": .string("MFK" + code.prefix(10)),
            "employee_id": .string("EFK" + code.prefix(10)), "tenant": "11111111-2222-4333-8444-555555555555",
            "zephr": .string(Self.zephrOutcome(of: name)),
        ]
        if name == "cleo" { base["email"] = nil }
        if name == "blocked" { base["email"] = "blocked@blocked.example" }
        json = overrides.map(base.merging) ?? base
    }

    /// Returns the outcome of a Zephr sign-in by the user's name.
    ///
    /// `new*`, `taken` and `blocked` get a partial registration, and `denied` fails.
    private static func zephrOutcome(of name: String) -> String {
        if name.hasPrefix("new") || name == "taken" || name == "blocked" { return "partial" }
        return name == "denied" ? "failure" : "known"
    }

    subscript(member: String) -> String? {
        switch json[member] {
        case .string(let text): text
        case .int(let number): String(number)
        default: nil
        }
    }

    var sub: String { self["sub"] ?? name }

    /// The standard claims of the scope, and the claims set as `claims`.
    func claims(scope: Set<String>) -> JSON {
        var out: JSON = [:]
        if scope.contains("profile") {
            for member in ["name", "given_name", "family_name"] { out[member] = json[member] }
        }
        if scope.contains("email") {
            for member in ["email", "email_verified"] where json["email"] != nil { out[member] = json[member] }
        }
        return json["claims"].map(out.merging) ?? out
    }
}
