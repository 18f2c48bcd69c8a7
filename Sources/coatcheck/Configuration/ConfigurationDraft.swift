import BrokerProviders

/// The parts of the file that could be read.
///
/// A missing part is nil, so that the rules can check the rest.
struct ConfigurationDraft {
    let server: ServerSettings?
    let management: ManagementSettings
    let store: StoreSettings?
    let keys: KeySettings?
    let session: SessionSettings
    let limits: LimitSettings
    let providers: [ProviderSection]
    /// The names of all providers in the file, including the unreadable ones.
    let providerNames: [String]
    let upstreams: [UpstreamSection]
    let backends: [BackendSection]
    let appLinks: AppLinkSettings
    let outbound: TransportSettings
    let log: LogSettings
    let tracing: TracingSettings?

    init(_ root: ConfigSection) {
        server = ServerSettings(root.section("server"))
        management = ManagementSettings(root.section("management"))
        store = StoreSettings(root.section("store"))
        keys = KeySettings(root.section("keys"))
        session = SessionSettings(root.section("session"), isSecure: server?.publicURL.isSecure ?? true)
        limits = LimitSettings(root.section("limits"))
        let defaults = session.lifetimes
        let sections = root.named("providers")
        providerNames = sections.map(\.name)
        providers = sections.compactMap { ProviderSection(name: $0.name, $0.section, defaults) }
        upstreams = root.named("upstreams").compactMap { UpstreamSection(name: $0.name, $0.section) }
        backends = root.named("backends").compactMap { BackendSection(name: $0.name, $0.section) }
        appLinks = AppLinkSettings(root.section("app_links"))
        outbound = TransportSettings(root.section("outbound"))
        log = LogSettings(root.section("log"))
        tracing = TracingSettings(root.section("tracing"))
    }

    /// Returns the configuration; nil if a required part is missing.
    func complete(_ warnings: [ConfigProblem], _ values: ConfigValues, _ lines: ConfigLines) -> Configuration? {
        guard let server, let store, let keys else { return nil }
        let targets = ConfiguredTargets(upstreams, backends)
        return Configuration(
            server: server, management: management, store: store, keys: keys, session: session,
            limits: limits.joined(providers),
            providers: providers.map(targets.joined), upstreams: upstreams, backends: backends, appLinks: appLinks,
            outbound: outbound, log: log, tracing: tracing, values: values, lines: lines, warnings: warnings)
    }
}
