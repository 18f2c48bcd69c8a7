import Broker
import BrokerProviders

/// The whole configuration file after all checks.
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
    let outbound: TransportSettings
    let log: LogSettings
    /// The settings of tracing; nil if tracing is off.
    let tracing: TracingSettings?
    /// Every setting by its path, for comparing configurations.
    let values: ConfigValues
    /// The line of each path in the file, for faults that are found later.
    let lines: ConfigLines
    /// Settings that are allowed but unwise.
    ///
    /// The broker logs them when it starts, and after a reload.
    let warnings: [ConfigProblem]

    /// The settings of the module `Broker`.
    var broker: BrokerSettings {
        var settings = limits.broker
        settings.proofOrigins = ProofOrigins(publicURL: server.publicURL.text, hosts: server.hosts)
        return settings
    }

    /// Whether a client reads the session cookie of an old system (`move_in.cookie`).
    var takesOldCookies: Bool {
        providers.flatMap(\.clients).contains { $0.settings.profile.moveIn?.cookie != nil }
    }

    /// The longest lifetime of any client's sessions.
    var longestLifetime: Duration {
        providers.flatMap(\.clients).map(\.settings.profile.lifetimes.absolute).reduce(session.lifetimes.absolute, max)
    }

    /// Reads a configuration; throws every problem of the file at once.
    static func load(text: String, sources: ConfigSources) throws(ConfigurationFailure) -> Configuration {
        let context = ConfigContext(sources: sources)
        let root = context.compose(text)
        guard root != nil else { throw ConfigurationFailure(problems: context.finish()) }
        let draft = ConfigurationDraft(
            ConfigSection(root, path: "", pattern: "", line: 1, context: context))
        ConfigurationRules.check(draft, context)
        let problems =
            (context.finish()
            + ImportRules.problems(
                draft.providers.flatMap(\.clients), context.lines, now: sources.now(), severity: .warning)).sorted()
        guard !problems.contains(where: { $0.severity == .error }), let root,
            let configuration = draft.complete(
                problems, ConfigValues(root, resolved: context.resolved), context.lines)
        else {
            throw ConfigurationFailure(problems: problems)
        }
        return configuration
    }

    /// Reads the configuration file at a path.
    ///
    /// `{file: …}` and other relative paths begin at its folder.
    static func load(path: String) throws(ConfigurationFailure) -> Configuration {
        let text = try text(of: path)
        return try load(text: text, sources: .process(directory: folder(of: path)))
    }

    /// Returns the folder that resolves a configuration file's relative paths.
    static func folder(of path: String) -> String {
        let directory = path.contains("/") ? String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]) : ""
        return path.hasPrefix("/") && directory.isEmpty ? "/" : directory
    }

    /// Returns the text of a configuration file.
    static func text(of path: String) throws(ConfigurationFailure) -> String {
        func failure(_ message: String) -> ConfigurationFailure {
            ConfigurationFailure(problems: [ConfigProblem(line: nil, path: path, message: message, severity: .error)])
        }
        var bytes: [UInt8]
        do throws(FileFault) { bytes = try BoundedFile.load(path, limit: 1 << 20) } catch {
            throw failure(path == "-" ? "\(error): standard input is `/dev/stdin`" : "\(error)")
        }
        guard !bytes.isEmpty else { throw failure("is empty") }
        // Skip the byte order mark that some editors write at the beginning.
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw failure(
                bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF])
                    ? "is UTF-16: it has to be UTF-8" : "is not UTF-8")
        }
        return text
    }

    /// Returns every key that the decoder knows, as patterns with `*` for names (`providers.*.issuer`).
    static func knownKeys() -> Set<String> {
        let sources = ConfigSources(
            environment: { _ in nil }, readFile: { _ throws(FileFault) in throw .missing },
            isOpenToOthers: { _ in false }, directory: "")
        let context = ConfigContext(sources: sources, isCataloguing: true)
        _ = ConfigurationDraft(ConfigSection(nil, path: "", pattern: "", line: nil, context: context))
        return context.knownKeys
    }
}
