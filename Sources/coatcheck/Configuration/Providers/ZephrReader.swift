import Broker
import BrokerProviders

/// Reads the settings that only a Zephr site has (kind `zephr`).
enum ZephrReader {
    static func read(_ section: ConfigSection) -> ZephrSettings? {
        section.require("base_url")
        let url = section.endpoint("base_url")
        let social = section.words("social_providers") ?? []
        for name in social where !isSlug(name) {
            section.report("social_providers", "has to hold slugs: lower-case letters, digits, `-` and `_`")
        }
        if social.isEmpty { section.report(nil, "needs `social_providers`: at least one, such as `[google]`") }
        var settings = ZephrSettings(baseURL: url?.withoutSlash, socialProviders: social)
        settings.start = section.choice("start", among: [.redirect, .fetch]) ?? settings.start
        settings.startPaths = platforms(section, "start_paths", isPath: true) ?? settings.startPaths
        settings.clientTypes = platforms(section, "client_types", isPath: false) ?? settings.clientTypes
        settings.startParameters = WireReader.texts(section, "start_parameters") ?? settings.startParameters
        readPaths(section.section("paths"), into: &settings.paths)
        settings.cookieName = section.text("cookie_name", limit: 64) ?? settings.cookieName
        readStatuses(section, into: &settings.statusMap)
        settings.fields = section.choice("fields", among: [.configured, .schema]) ?? settings.fields
        settings.requiredAttributes = attributes(section)
        if settings.fields == .schema, section.has("required_attributes") {
            section.report("required_attributes", "contradicts `fields: schema`, which asks the site")
        }
        settings.identifiers = section.choice("identifiers", among: [.empty, .omit, .send]) ?? settings.identifiers
        if section.has("attribute_defaults") || section.context.isCataloguing {
            settings.attributeDefaults = section.pairs("attribute_defaults").map { ($0.name, value($0.value)) }
        }
        settings.sessionLifetime = section.duration(
            "session_lifetime", default: settings.sessionLifetime, in: .seconds(60) ... .seconds(365 * 86_400))
        return url == nil ? nil : settings
    }

    private static func platforms(_ section: ConfigSection, _ key: String, isPath: Bool) -> [String: String]? {
        let part = section.section(key)
        var found: [String: String] = [:]
        for platform in ["ios", "android", "web"] {
            guard let text = isPath ? path(part, platform) : part.text(platform, limit: 64) else { continue }
            found[platform] = text
        }
        return section.has(key) ? found : nil
    }

    private static func readPaths(_ section: ConfigSection, into paths: inout ZephrPaths) {
        func read(_ key: String, _ place: WritableKeyPath<ZephrPaths, String>) {
            if let text = path(section, key) { paths[keyPath: place] = text }
        }
        read("start", \.start)
        read("account", \.account)
        read("register", \.register)
        read("logout", \.logout)
        read("schema", \.schema)
        read("anonymous_session", \.anonymousSession)
    }

    private static func path(_ section: ConfigSection, _ key: String) -> String? {
        guard let text = section.text(key, limit: 512) else { return nil }
        if text.hasPrefix("/"), !text.hasPrefix("//") { return text }
        section.report(key, "has to be a path that begins with one `/`")
        return nil
    }

    private static func readStatuses(_ section: ConfigSection, into statuses: inout [Int: ZephrRegisterStatus]) {
        for (name, value) in section.pairs("status_map") {
            if let status = Int(name), (400...499).contains(status),
                let meaning = ZephrRegisterStatus(rawValue: value.text)
            {
                statuses[status] = meaning
            } else {
                let words = ConfigSection.alternatives(ZephrRegisterStatus.allCases.map(\.rawValue))
                section.report("status_map", "has to map statuses from 400 to 499 to \(words)")
            }
        }
    }

    private enum AttributeType: String, CaseIterable { case string, number, boolean }

    private static func attributes(_ section: ConfigSection) -> [RegistrationField] {
        section.list("required_attributes").compactMap { item in
            let name = item.requiredText("name", limit: 64)
            let type = item.choice("type", as: AttributeType.self) ?? .string
            let required = item.flag("required", default: true)
            guard let name, let kind = RegistrationField.Kind(rawValue: type.rawValue) else { return nil }
            return RegistrationField(name: name, type: kind, required: required)
        }
    }

    /// Returns an attribute's value, which is a text if it is quoted.
    ///
    /// An unquoted value has the type that YAML gives it.
    private static func value(_ scalar: ConfigScalar) -> JSONValue {
        guard scalar.isPlain else { return .string(scalar.text) }
        switch scalar.text {
        case "true": return .bool(true)
        case "false": return .bool(false)
        default:
            let parsed = try? JSONParser.parse(Array(scalar.text.utf8), maximumBytes: 64, maximumDepth: 1)
            if case .number? = parsed?.value { return .number(scalar.text) }
            return .string(scalar.text)
        }
    }

    private static func isSlug(_ text: String) -> Bool {
        text.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D || $0 == 0x5F }
    }
}
