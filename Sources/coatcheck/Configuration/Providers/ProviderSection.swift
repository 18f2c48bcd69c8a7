import Broker

/// Is what the file says about one provider; presets and defaults come in when its client is made.
struct ProviderSection: Sendable {
    let name: ProviderName
    let kind: ProviderKind
    let preset: ProviderPresetName?
    let displayName: String?
    let issuer: String?
    let endpoints: EndpointSection
    let wire: WireSection
    let identity: IdentitySection?
    let idToken: IDTokenSection?
    let clover: CloverSection?
    let zephr: ZephrSection?
    let clients: [ClientSection]
    let path: String
    let line: Int?

    init?(name: String, _ section: ConfigSection, _ lifetimes: SessionLifetimes) {
        if section.context.isCataloguing {
            for kind in ProviderKind.allCases {
                _ = ProviderSection(name: "x", kind: kind, preset: nil, section, lifetimes)
            }
            return nil
        }
        let preset: ProviderPresetName? = section.choice("preset")
        let written: ProviderKind? = section.choice("kind")
        guard let kind = written ?? preset?.kind else {
            if !section.has("kind"), !section.has("preset") { section.report(nil, "needs `kind` or `preset`") }
            section.abandon()
            return nil
        }
        if let preset, preset.kind != kind {
            section.report("kind", "contradicts the preset, which is of kind `\(preset.kind.rawValue)`")
        }
        self.init(name: name, kind: kind, preset: preset, section, lifetimes)
    }

    private init?(
        name: String, kind: ProviderKind, preset: ProviderPresetName?, _ section: ConfigSection,
        _ lifetimes: SessionLifetimes
    ) {
        self.kind = kind
        self.preset = preset
        path = section.path
        line = section.line
        _ = section.node("kind")
        displayName = section.text("display_name", limit: 64)
        issuer = kind == .oidc || kind == .oauth2 || kind == .clever ? section.endpoint("issuer") : nil
        endpoints = EndpointSection(section.section("endpoints"))
        wire = kind == .zephr ? .none : WireSection(section)
        let isPlain = kind == .oidc || kind == .oauth2
        identity = isPlain ? section.optionalSection("identity").map(IdentitySection.init) : nil
        idToken = isPlain || kind == .clever ? section.optionalSection("id_token").map(IDTokenSection.init) : nil
        clover = kind == .clover ? CloverSection(section) : nil
        zephr = kind == .zephr ? ZephrSection(section) : nil
        clients = section.named("clients").compactMap { child in
            ClientSection(name: child.name, kind: kind, child.section, defaults: lifetimes)
        }
        if !section.has("clients") { section.report(nil, "needs `clients`: at least one") }
        Self.needs(section, kind: kind, preset: preset, endpoints: endpoints, issuer: issuer)
        guard let name = ProviderName(name) else {
            section.report(nil, "has a name that is not 1 to 63 letters, digits, `-`, `_` or `.`")
            return nil
        }
        self.name = name
    }

    private static func needs(
        _ section: ConfigSection, kind: ProviderKind, preset: ProviderPresetName?, endpoints: EndpointSection,
        issuer: String?
    ) {
        guard preset == nil else { return }
        switch kind {
        case .oidc:
            section.require("issuer")
        case .oauth2:
            if endpoints.authorization == nil || endpoints.token == nil, issuer == nil {
                section.report(nil, "needs `endpoints` with `authorization` and `token`, or an `issuer` that publishes them")
            }
        case .clever, .clover, .zephr:
            break
        }
    }
}
