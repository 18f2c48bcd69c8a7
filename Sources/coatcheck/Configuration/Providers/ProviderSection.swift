import Broker
import BrokerProviders

/// Is one provider, with its place in the file.
struct ProviderSection: Sendable {
    let settings: ProviderSettings
    let clients: [ClientSection]
    /// The Site URL, for kind `clover`.
    let cloverSite: CloverSite?
    let path: String
    let line: Int?

    var name: ProviderName { settings.name }
    var kind: ProviderKind { settings.service.kind }

    init?(name: String, _ section: ConfigSection, _ lifetimes: SessionLifetimes) {
        if section.context.isCataloguing {
            for kind in ProviderKind.allCases { _ = ProviderSection(name: "x", kind: kind, section, lifetimes) }
            return nil
        }
        guard let kind = section.choice("kind", as: ProviderKind.self) else {
            section.require("kind")
            section.abandon()
            return nil
        }
        self.init(name: name, kind: kind, section, lifetimes)
    }

    private init?(name: String, kind: ProviderKind, _ section: ConfigSection, _ lifetimes: SessionLifetimes) {
        path = section.path
        line = section.line
        _ = section.node("kind")
        var draft = ProviderDraft(
            kind: kind, lifetimes: lifetimes, wire: WireSettings(), scope: kind == .oidc ? ["openid"] : [])
        let service = Self.service(kind, section)
        if kind != .zephr {
            WireReader.read(section, into: &draft.wire)
            draft.allowedParameters = WireReader.allowedParameters(section) ?? []
            draft.callbackParameters = section.words("callback_parameters") ?? draft.callbackParameters
            draft.credentials = CredentialReader.shared(section)
        }
        if case .zephr(let zephr)? = service { draft.socialProviders = zephr.socialProviders }
        if case .clever(let clever)? = service { draft.isCleverOpenID = clever.openID }
        if case .clover(let clover)? = service {
            cloverSite = clover.siteURL.flatMap(WebURL.init).map(CloverSite.init)
        } else {
            cloverSite = nil
        }
        clients = section.named("clients").compactMap { ClientSection(name: $0.name, provider: draft, $0.section) }
        if !section.has("clients") { section.report(nil, "needs `clients`: at least one") }
        let settings = Self.settings(name, service, section, clients: clients.map(\.settings))
        guard ProviderName(name) != nil else {
            section.report(nil, "has a name that is not 1 to 63 letters, digits, `-`, `_` or `.`")
            return nil
        }
        guard let settings else { return nil }
        self.settings = settings
    }

    private static func settings(
        _ name: String, _ service: ProviderSettings.Service?, _ section: ConfigSection, clients: [ClientSettings]
    ) -> ProviderSettings? {
        let kind = service?.kind
        let issuer = kind == .zephr || kind == .clover ? nil : section.endpoint("issuer")
        var endpoints = EndpointSettings()
        EndpointReader.read(section.section("endpoints"), into: &endpoints)
        let discovery = kind == .oidc || kind == .oauth2 ? section.choice("discovery", as: Switch.self) : nil
        var limits = CallLimits()
        limits.total = section.duration("timeout", default: limits.total, in: .seconds(1) ... .seconds(15))
        limits.concurrent = section.integer("max_in_flight", default: limits.concurrent, in: 1...10_000)
        limits.failuresToOpen = section.integer("breaker_failures", default: limits.failuresToOpen, in: 1...1000)
        limits.pause = section.duration("breaker_pause", default: limits.pause, in: .milliseconds(100) ... .seconds(60))
        let settings = ProviderSettings(
            name: ProviderName(unchecked: name), service: service ?? .oauth2,
            displayName: section.text("display_name", limit: 64), issuer: issuer,
            discovery: discovery.map { $0 == .on }, endpoints: endpoints,
            allowPrivate: section.flag("allow_private", default: false), limits: limits, clients: clients)
        if kind == .oidc { section.require("issuer") }
        if kind == .oauth2, issuer == nil, endpoints.authorization == nil || endpoints.token == nil {
            section.report(nil, "needs `endpoints` with `authorization` and `token`, or an `issuer` that publishes them")
        }
        if settings.discovery, issuer == nil, discovery == .on { section.report("discovery", "needs `issuer`") }
        return service == nil ? nil : settings
    }

    private enum Switch: String, CaseIterable { case on, off }

    private static func service(_ kind: ProviderKind, _ section: ConfigSection) -> ProviderSettings.Service? {
        switch kind {
        case .oidc: return .oidc
        case .oauth2: return .oauth2
        case .clever:
            var settings = CleverSettings()
            settings.openID = section.flag("oidc", default: settings.openID)
            settings.defaultLifetime = section.duration(
                "default_lifetime", default: settings.defaultLifetime, in: .seconds(60) ... .seconds(400 * 86_400))
            return .clever(settings)
        case .clover:
            section.require("environment")
            section.require("site_url")
            let environment = section.choice("environment", as: CloverSettings.Environment.self)
            let site = section.endpoint("site_url")
            guard let environment, let site else { return nil }
            return .clover(CloverSettings(environment: environment, siteURL: site))
        case .zephr:
            return ZephrReader.read(section).map { .zephr($0) }
        }
    }
}
