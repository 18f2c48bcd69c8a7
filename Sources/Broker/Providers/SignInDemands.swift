/// The demands of an authorization request on the sign-in itself, which the id_token then has to meet (OpenID Connect Core
/// 3.1.2.1, 5.5).
package struct SignInDemands: Sendable, Equatable {
    /// Whether the request has `prompt=none`, so the provider may not ask the user anything.
    package var isSilent = false
    /// `max_age` in seconds (SEC-30).
    package var maximumAge: Int64?
    /// `acr_values`; the `acr` of the sign-in must be one of them.
    package var contextClasses: [String] = []
    /// The text of the parameter `claims`.
    package var claims: String?

    package init() {}

    /// Reads the demands from an authorization request's parameters; an unreadable value demands nothing.
    package init(_ parameters: [(name: String, value: String)]) {
        for parameter in parameters {
            switch parameter.name {
            case "prompt": isSilent = parameter.value.split(separator: " ").contains("none")
            case "max_age": maximumAge = Int64(parameter.value)
            case "acr_values": contextClasses = parameter.value.split(separator: " ").map(String.init)
            case "claims": claims = parameter.value
            default: break
            }
        }
    }

    /// The parameters that make the same demands in a further login.
    package var parameters: [(name: String, value: String)] {
        var pairs: [(name: String, value: String)] = []
        if let maximumAge { pairs.append(("max_age", String(maximumAge))) }
        if !contextClasses.isEmpty { pairs.append(("acr_values", contextClasses.joined(separator: " "))) }
        if let claims { pairs.append(("claims", claims)) }
        return pairs
    }

    /// Returns these demands of an app, after each demand in `fixed` has replaced the app's demand of the same kind.
    ///
    /// `fixed` comes from the configuration.
    package func under(_ fixed: SignInDemands) -> SignInDemands {
        var all = self
        all.maximumAge = fixed.maximumAge ?? maximumAge
        if !fixed.contextClasses.isEmpty { all.contextClasses = fixed.contextClasses }
        all.claims = fixed.claims ?? claims
        return all
    }

    /// The essential claims of the id_token, each with the values that satisfy it.
    ///
    /// An empty list allows every value.
    package var essentialClaims: [(name: String, values: [JSONValue])] {
        guard let claims, let object = try? Self.parse(claims), let wanted = object["id_token"]?.object else {
            return []
        }
        return wanted.names.compactMap { name in
            guard let member = wanted[name]?.object, member["essential"]?.bool == true else { return nil }
            return (name, member["values"]?.array ?? member["value"].map { [$0] } ?? [])
        }
    }

    /// Returns the names of the parameters with unreadable values.
    package static func faults(in parameters: [(name: String, value: String)]) -> [String] {
        parameters.filter { parameter in
            switch parameter.name {
            case "max_age": (Int64(parameter.value) ?? -1) < 0
            case "claims": (try? parse(parameter.value)) == nil
            default: false
            }
        }.map(\.name)
    }

    private static func parse(_ text: String) throws -> JSONObject {
        try JSONParser.parseObject(Array(text.utf8), maximumBytes: 4096, maximumDepth: 6)
    }
}
