/// One misbehaviour, placed with the control API.
package struct Fault: Sendable {
    /// The provider of the fault (`oidc`, `clever`, …).
    package var provider: String
    /// The name of the fault's endpoint; `*` means every endpoint.
    package var endpoint: String
    /// The fault's name, in kebab case.
    package var name: String
    /// The remaining number of requests that the fault affects; nil means all.
    package var times: Int?
    /// The delay in milliseconds, for the faults `slow`, `slow-after` and `hang`.
    package var delayMilliseconds: Int?
    /// The answer's status, for the faults `status`, `redirect`, `dead-grant` and `userinfo-not-yet`.
    package var status: Int?
    /// The answer's body for the fault `status`; the error description for the fault `error-callback`.
    package var body: String?
    /// The header fields that the faults `status`, `redirect` and `headers` set in the answer.
    package var headers: [(String, String)]
    /// The target of the fault `redirect`.
    package var location: String?
    /// A further value, for the faults that need one.
    package var value: JSON?
    /// A text that the target or the body of a request must contain for the fault to apply; nil if it applies to all requests.
    package var match: String?

    /// Creates a fault.
    package init(
        provider: String, endpoint: String? = nil, _ name: String, times: Int? = nil, delayMilliseconds: Int? = nil,
        status: Int? = nil, body: String? = nil, headers: [(String, String)] = [], location: String? = nil,
        value: JSON? = nil, match: String? = nil
    ) {
        self.provider = provider
        self.endpoint = endpoint ?? Self.usualEndpoint(of: name)
        self.name = name
        self.times = times
        self.delayMilliseconds = delayMilliseconds
        self.status = status
        self.body = body
        self.headers = headers
        self.location = location
        self.value = value
        self.match = match
    }

    /// Reads a fault in the form of the control API; nil if its name is missing.
    package init?(provider: String, json: JSON) {
        guard let name = json["fault"]?.text else { return nil }
        var body = json["body"]?.text
        if body == nil, let value = json["body"], value != .null { body = value.serialized }
        self.init(
            provider: provider, endpoint: json["endpoint"]?.text, name, times: json["times"]?.number,
            delayMilliseconds: json["delay_ms"]?.number, status: json["status"]?.number, body: body,
            headers: (json["headers"]?.members ?? []).map { ($0.name, $0.value.text ?? $0.value.serialized) },
            location: json["location"]?.text, value: json["value"], match: json["match"]?.text)
    }

    /// The fault in the form of the control API, without its header fields.
    package var json: JSON {
        var out: JSON = ["provider": .string(provider), "endpoint": .string(endpoint), "fault": .string(name)]
        out["times"] = times.map { .int($0) } ?? .null
        if let delayMilliseconds { out["delay_ms"] = .int(delayMilliseconds) }
        if let status { out["status"] = .int(status) }
        if let body { out["body"] = .string(body) }
        if let location { out["location"] = .string(location) }
        if let value { out["value"] = value }
        if let match { out["match"] = .string(match) }
        return out
    }

    private static func usualEndpoint(of name: String) -> String {
        if name.hasPrefix("userinfo-") { return "userinfo" }
        if name.hasPrefix("jwks-") { return "jwks" }
        if name == "account-no-email" { return "account" }
        if name == "unauthorized-user" { return "authorize" }
        if name.hasPrefix("discovery-") { return "discovery" }
        if name.hasPrefix("refresh-") || ["rotate-strict", "refused-target", "dead-grant"].contains(name) {
            return "refresh"
        }
        if name.hasPrefix("exchange-") { return "exchange" }
        if name.hasSuffix("-callback") { return "authorize" }
        if name.hasPrefix("kid-absent-") { return "*" }
        if name.hasPrefix("end-session-") { return "end_session" }
        if name.hasPrefix("register-") { return "register" }
        return "token"
    }
}
