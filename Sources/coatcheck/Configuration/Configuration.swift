/// The whole configuration file, checked.
struct Configuration: Sendable {
    let server: ServerSettings
    let management: ManagementSettings
    let store: StoreSettings
    let keys: KeySettings
    let session: SessionSettings
    let limits: LimitSettings
    let providers: [ProviderSection]
    let upstreams: [UpstreamSection]
    let backends: [BackendSection]
    let appLinks: AppLinkSettings
    let outbound: OutboundSettings
    let log: LogSettings
    /// What is allowed and unwise; start-up logs each.
    let warnings: [ConfigProblem]

    /// Reads a configuration; throws every problem of the file at once.
    static func load(text: String, sources: ConfigSources) throws(ConfigurationFailure) -> Configuration {
        let context = ConfigContext(sources: sources)
        let root = context.compose(text)
        guard root != nil else { throw ConfigurationFailure(problems: context.finish()) }
        let draft = ConfigurationDraft(
            ConfigSection(root, path: "", pattern: "", line: 1, context: context))
        ConfigurationRules.check(draft, context)
        let problems = context.finish()
        guard !problems.contains(where: { $0.severity == .error }), let configuration = draft.complete(problems) else {
            throw ConfigurationFailure(problems: problems)
        }
        return configuration
    }

    /// Reads the configuration file at a path; `{file: …}` and other relative paths are relative to its folder.
    static func load(path: String) throws(ConfigurationFailure) -> Configuration {
        guard let bytes = BoundedFile.read(path, limit: 1 << 20), let text = String(validating: bytes, as: UTF8.self)
        else {
            let message = "cannot be read: it has to be a UTF-8 file of at most 1 MiB"
            throw ConfigurationFailure(
                problems: [ConfigProblem(line: nil, path: path, message: message, severity: .error)])
        }
        let directory = path.contains("/") ? String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]) : ""
        let folder = path.hasPrefix("/") && directory.isEmpty ? "/" : directory
        return try load(text: text, sources: .process(directory: folder))
    }

    /// Returns every key that the decoder knows, as patterns with `*` for names (`providers.*.issuer`).
    static func knownKeys() -> Set<String> {
        let sources = ConfigSources(
            environment: { _ in nil }, readFile: { _ in nil }, isOpenToOthers: { _ in false }, directory: "")
        let context = ConfigContext(sources: sources, isCataloguing: true)
        _ = ConfigurationDraft(ConfigSection(nil, path: "", pattern: "", line: nil, context: context))
        return context.knownKeys
    }
}
