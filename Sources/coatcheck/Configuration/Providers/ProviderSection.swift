import Broker
import BrokerProviders

/// One provider, with its position in the file.
struct ProviderSection: Sendable {
    var settings: ProviderSettings
    let clients: [ClientSection]
    /// The names of all clients in the file, including the unreadable ones.
    let clientNames: [String]
    /// The Site URL, for kind `clover`.
    let cloverSite: CloverSite?
    let path: String
    let line: Int?

    var name: ProviderName { settings.name }
    var kind: ProviderKind { settings.service.kind }

    init?(name: String, _ section: ConfigSection, _ lifetimes: SessionLifetimes) {
        if section.context.isCataloguing {
            _ = Self.preset(section)
            for kind in ProviderKind.allCases {
                _ = ProviderSection(name: "x", kind: kind, preset: nil, section, lifetimes)
            }
            return nil
        }
        let preset = Self.preset(section)
        let written = Self.kind(section)
        guard let kind = written ?? preset?.service.kind else {
            if !section.has("kind"), !section.has("preset") { section.report(nil, "needs `kind` or `preset`") }
            section.abandon()
            return nil
        }
        if let preset, preset.service.kind != kind {
            section.report("kind", "contradicts the preset, which is of kind `\(preset.service.kind.rawValue)`")
        }
        self.init(name: name, kind: kind, preset: preset, section, lifetimes)
    }

    private static func kind(_ section: ConfigSection) -> ProviderKind? {
        if let scalar = section.scalar("kind"), Presets.named(scalar.text) != nil,
            ProviderKind(rawValue: scalar.text) == nil
        {
            section.report("kind", "is no kind: write `preset: \(scalar.text)`")
            return nil
        }
        return section.choice("kind", as: ProviderKind.self)
    }

    private static func preset(_ section: ConfigSection) -> Preset? {
        guard let scalar = section.scalar("preset") else { return nil }
        if let preset = Presets.named(scalar.text) { return preset }
        let kinds = ProviderKind.allCases.map(\.rawValue)
        section.report(
            "preset",
            kinds.contains(scalar.text)
                ? "is no preset: write `kind: \(scalar.text)`"
                : "has to be \(ConfigSection.alternatives(Presets.all.map(\.name)))"
                    + (Spelling.nearest(to: scalar.text, among: Presets.all.map(\.name)).map { Spelling.hint($0) }
                        ?? "; any other service is `kind: oidc` with its `issuer`, or `kind: oauth2`"))
        return nil
    }

    private init?(
        name: String, kind: ProviderKind, preset: Preset?, _ section: ConfigSection, _ lifetimes: SessionLifetimes
    ) {
        path = section.path
        line = section.line
        _ = section.node("kind")
        var draft = ProviderDraft(
            kind: kind, lifetimes: lifetimes,
            wire: preset?.wire
                ?? WireSettings(revocation: RevocationSettings(reaches: kind == .oauth2 ? .token : .signIn)),
            scope: preset?.scope ?? (kind == .oidc ? ["openid"] : []))
        draft.section = section
        draft.hasUserinfo = preset?.endpoints.userinfo != nil || section.place(of: "endpoints", "userinfo") != nil
        if let preset {
            draft.callbackParameters = preset.callbackParameters
            draft.nonce = preset.nonce
            draft.pkce = preset.pkce
            draft.nativeRedirect = preset.nativeRedirect
            draft.secretInBody = preset.secretInBody
            draft.assertionAlgorithm = preset.assertionAlgorithm
        }
        // Clever lacks PKCE, so its clients may leave out the setting `pkce`.
        if kind == .clever { draft.pkce = .unsupported }
        let service = Self.service(kind, section)
        let profile = section.choice("profile", as: ConformanceProfile.self)
        if kind != .zephr {
            if let profile {
                draft.adopt(profile)
            } else {
                WireReader.read(section, into: &draft.wire)
            }
            draft.allowedParameters = WireReader.allowedParameters(section) ?? []
            draft.callbackParameters = section.words("callback_parameters") ?? draft.callbackParameters
            draft.namesCertificate = TLSReader.names(section)
            draft.credentials = CredentialReader.shared(section, algorithm: draft.assertionAlgorithm)
        }
        if case .zephr(let zephr)? = service { draft.socialProviders = zephr.socialProviders }
        if case .clever(let clever)? = service { draft.isCleverOpenID = clever.openID }
        if case .clover(let clover)? = service {
            draft.secretInBody = true
            cloverSite = clover.siteURL.flatMap(WebURL.init).map(CloverSite.init)
        } else {
            cloverSite = nil
        }
        let sections = section.named("clients")
        clientNames = sections.map(\.name)
        clients = sections.compactMap { ClientSection(name: $0.name, provider: draft, $0.section) }
        if !section.has("clients") { section.report(nil, "needs `clients`: at least one") }
        if preset?.name == "apple" { Self.checkApple(clients, section.context) }
        let settings = Self.settings(name, service, preset, section, clients: clients.map(\.settings))
        if profile != nil || clients.contains(where: { $0.settings.wire.profile != nil }), let settings {
            FAPI2Rules.check(settings, section, hasPreset: preset)
        }
        guard ProviderName(name) != nil else {
            section.report(nil, "has a name that is not 1 to 63 letters, digits, `-`, `_` or `.`")
            return nil
        }
        guard var settings else { return nil }
        settings.trust = draft.wire.connection.trust
        self.settings = settings
    }

    private static func settings(
        _ name: String, _ service: ProviderSettings.Service?, _ preset: Preset?, _ section: ConfigSection,
        clients: [ClientSettings]
    ) -> ProviderSettings? {
        let kind = service?.kind
        let issuer = kind == .zephr || kind == .clover ? nil : section.endpoint("issuer")?.text ?? preset?.issuer
        var endpoints = preset?.endpoints ?? EndpointSettings()
        let authorization = endpoints.authorization
        EndpointReader.read(section.section("endpoints"), into: &endpoints)
        let discovery = kind == .oidc || kind == .oauth2 ? section.choice("discovery", as: Switch.self) : nil
        var limits = CallLimits()
        limits.total = section.duration("timeout", default: limits.total, in: .seconds(1) ... .seconds(15))
        limits.concurrent = section.integer("max_in_flight", default: limits.concurrent, in: 1...10_000)
        limits.failuresToOpen = section.integer("breaker_failures", default: limits.failuresToOpen, in: 1...1000)
        limits.pause = section.duration("breaker_pause", default: limits.pause, in: .milliseconds(100) ... .seconds(60))
        // If the file sets another authorization endpoint than the preset, the endpoint belongs to another server, so the
        // preset's issuer does not apply.
        let callbackIssuer =
            (kind == .zephr ? nil : Self.callbackIssuer(section))
            ?? (endpoints.authorization == authorization ? preset?.callbackIssuer : nil)
        var settings = ProviderSettings(
            name: ProviderName(unchecked: name), service: service ?? .oauth2,
            displayName: section.text("display_name", limit: 64) ?? preset?.displayName, issuer: issuer,
            callbackIssuer: callbackIssuer, discovery: discovery.map { $0 == .on }, endpoints: endpoints,
            allowPrivate: section.flag("allow_private", default: false), limits: limits,
            own: section.section("session").choice("own", among: [.subject, .device]), clients: clients)
        settings.stepUp = StepUpReader.capability(section, kind: kind, preset: preset)
        if kind == .oidc, issuer == nil { section.require("issuer") }
        if let issuer, issuer.contains("/.well-known/") {
            section.report(
                "issuer",
                "is the address of a document: the issuer is what stands before `/.well-known/`, byte for byte "
                    + "as in that document")
        }
        if kind == .oauth2, issuer == nil, endpoints.authorization == nil || endpoints.token == nil {
            section.report(
                nil, "needs `endpoints` with `authorization` and `token`, or an `issuer` that publishes them")
        }
        if settings.discovery, issuer == nil, discovery == .on { section.report("discovery", "needs `issuer`") }
        return service == nil ? nil : settings
    }

    /// Reports an Apple client without a key, because Apple has no public clients.
    ///
    /// Without a key, every login would fail at the token call.
    private static func checkApple(_ clients: [ClientSection], _ context: ConfigContext) {
        for client in clients {
            if case .apple = client.settings.authentication { continue }
            context.report(
                "needs `apple: {team_id, key_id, key}`, here or on the provider: Apple takes no other proof",
                path: client.location.path, line: client.location.line)
        }
    }

    private static func callbackIssuer(_ section: ConfigSection) -> String? {
        guard let text = section.text("callback_issuer", limit: 2048) else { return nil }
        guard IssuerExpectation.isPattern(text), WebURL(text.filter { $0 != "{" && $0 != "}" }) != nil else {
            section.report("callback_issuer", "has to be a URL, with at most one segment such as `{tenant}`")
            return nil
        }
        return text
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
            let site = section.endpoint("site_url")?.text
            guard let environment, let site else { return nil }
            return .clover(CloverSettings(environment: environment, siteURL: site))
        case .zephr:
            return ZephrReader.read(section).map { .zephr($0) }
        }
    }
}

/// The settings that clients inherit from their provider.
struct ProviderDraft {
    let kind: ProviderKind
    let lifetimes: SessionLifetimes
    var wire: WireSettings
    /// The provider's own section.
    var section: ConfigSection?
    var scope: [String]
    var allowedParameters: Set<String> = []
    var callbackParameters: [String] = []
    var socialProviders: [String] = []
    var isCleverOpenID = false
    /// Whether the preset's clients send a nonce; nil without a preset.
    ///
    /// If the value is nil, clients of kind `oidc` send a nonce.
    var nonce: Bool?
    var pkce = ClientProfile.PKCE.required
    /// The form of the redirect URI in the redemption of a native code.
    ///
    /// Google requires an empty redirect URI. For Apple, the parameter is omitted.
    var nativeRedirect = CodeGrant.RedirectParameter.omitted
    /// The default algorithm of a `private_key`.
    var assertionAlgorithm = SignatureAlgorithm.es256
    var credentials = CredentialReader.Shared()
    /// Whether the provider names a certificate for its clients, valid or not.
    var namesCertificate = false
    /// Whether a secret is sent in the request body by default.
    ///
    /// For example, Clover, Facebook and LinkedIn do not accept Basic.
    var secretInBody = false
    /// Whether the address of userinfo is in the file or the preset.
    var hasUserinfo = false

    init(kind: ProviderKind, lifetimes: SessionLifetimes, wire: WireSettings, scope: [String]) {
        self.kind = kind
        self.lifetimes = lifetimes
        self.wire = wire
        self.scope = scope
        presetWire = wire
    }

    /// The wire settings from the preset, which the provider's section overrides.
    private let presetWire: WireSettings

    /// Applies a profile to the preset's settings, and then the provider's section, which overrides the profile.
    mutating func adopt(_ profile: ConformanceProfile) {
        wire = presetWire
        wire.adopt(profile)
        if let section { WireReader.read(section, into: &wire) }
        pkce = .required
        nonce = nil
    }
}

/// Reads `endpoints`.
enum EndpointReader {
    /// The names of all endpoints.
    static let names = [
        "authorization", "token", "refresh", "recovery", "migration", "userinfo", "jwks", "revocation", "introspection",
        "end_session", "par", "api",
    ]

    /// Reads the endpoints in the file, which override those in `endpoints`.
    static func read(_ section: ConfigSection, into endpoints: inout EndpointSettings) {
        func read(_ key: String, _ path: WritableKeyPath<EndpointSettings, EndpointURL?>) {
            if let url = section.endpoint(key) { endpoints[keyPath: path] = url }
        }
        read("authorization", \.authorization)
        read("token", \.token)
        read("refresh", \.refresh)
        read("recovery", \.recovery)
        read("migration", \.migration)
        read("userinfo", \.userinfo)
        read("jwks", \.jwks)
        if let url = section.endpoint("revocation") { endpoints.revocation = url.text }
        read("introspection", \.introspection)
        read("end_session", \.endSession)
        read("par", \.par)
        if let url = section.endpoint("api") { endpoints.api = url.withoutSlash }
    }
}
