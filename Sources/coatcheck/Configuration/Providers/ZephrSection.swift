import Broker

/// Is what the file says about a Zephr site (kind `zephr`).
struct ZephrSection: Sendable {
    enum Start: String, Sendable, CaseIterable { case redirect, fetch }
    enum Outcome: String, Sendable, CaseIterable {
        case registered, badAttributes = "bad_attributes", userExists = "user_exists"
        case emailDomainDenied = "email_domain_denied", stateInvalid = "state_invalid", rateLimited = "rate_limited"
    }

    let baseURL: String
    let socialProviders: [String]
    /// Nil asks the site's schema.
    let requiredAttributes: [RegistrationField]?
    /// How the start path is used: opened by the browser, or fetched here for its `Location`.
    let start: Start?
    /// Paths that differ from the documented ones, by name.
    let paths: [String: String]
    /// What a status of the register call means, where it differs.
    let statuses: [Int: Outcome]
    let stateKeyLifetime: Duration?
    let sessionLifetime: Duration?

    /// The paths that can be overridden.
    static let pathNames = ["start_ios", "start_android", "start_web", "account", "register", "logout", "schema"]

    init?(_ section: ConfigSection) {
        socialProviders = section.words("social_providers") ?? []
        for name in socialProviders where !Self.isSlug(name) {
            section.report("social_providers", "has to hold slugs: lower-case letters, digits and `-`")
        }
        if socialProviders.isEmpty, !section.context.isCataloguing {
            section.report(nil, "needs `social_providers`: at least one, such as `[google]`")
        }
        requiredAttributes = Self.attributes(section)
        start = section.choice("start")
        paths = Self.paths(section.section("paths"))
        statuses = Self.statuses(section)
        stateKeyLifetime = section.optionalDuration("state_key_lifetime", in: .seconds(10) ... .seconds(3600))
        sessionLifetime = section.optionalDuration("session_lifetime", in: .seconds(60) ... .seconds(365 * 86_400))
        section.require("base_url")
        guard let url = section.endpoint("base_url") else { return nil }
        baseURL = url.hasSuffix("/") ? String(url.dropLast()) : url
    }

    private static func attributes(_ section: ConfigSection) -> [RegistrationField]? {
        let items = section.list("required_attributes")
        guard section.has("required_attributes") || section.context.isCataloguing else { return nil }
        return items.compactMap { item in
            let name = item.requiredText("name", limit: 64)
            let type = item.choice("type", as: AttributeType.self) ?? .string
            let required = item.flag("required", default: true)
            guard let name else { return nil }
            return RegistrationField(name: name, type: type.kind, required: required)
        }
    }

    private enum AttributeType: String, CaseIterable {
        case string, number, boolean

        var kind: RegistrationField.Kind {
            switch self {
            case .string: .string
            case .number: .number
            case .boolean: .boolean
            }
        }
    }

    private static func paths(_ section: ConfigSection) -> [String: String] {
        var paths: [String: String] = [:]
        for name in pathNames {
            guard let path = section.text(name, limit: 512) else { continue }
            if path.hasPrefix("/"), !path.hasPrefix("//") {
                paths[name] = path
            } else {
                section.report(name, "has to be a path that begins with one `/`")
            }
        }
        return paths
    }

    private static func statuses(_ section: ConfigSection) -> [Int: Outcome] {
        var statuses: [Int: Outcome] = [:]
        for (name, value) in section.pairs("statuses") {
            guard let status = Int(name), (200...499).contains(status), let outcome = Outcome(rawValue: value.text) else {
                section.report(
                    "statuses",
                    "has to map statuses from 200 to 499 to \(ConfigSection.alternatives(Outcome.allCases.map(\.rawValue)))")
                continue
            }
            statuses[status] = outcome
        }
        return statuses
    }

    private static func isSlug(_ text: String) -> Bool {
        text.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D || $0 == 0x5F }
    }
}
