import Broker
import BrokerHTTP

/// A backend, which is an operator's service that may ask about sessions (`backends.NAME`), with its position in the file.
struct BackendSection: Sendable {
    let settings: BackendConfiguration
    /// The paths of the entries of `allow` and of `tokens`, in the file's order.
    let allowPaths: [String]
    let tokenPaths: [String]
    let path: String
    let line: Int?

    init?(name: String, _ section: ConfigSection) {
        path = section.path
        line = section.line
        let digest = section.sha256("sha256")
        let may = section.choices("may", as: BackendPermission.self)
        let ranges = section.networks("peers")
        let forward = section.flag("forward_access_token", default: false)
        let slides = section.flag("slides", default: false)
        let original = section.flag("original_request", default: false)
        let origins = Self.origins(section)
        let evidence = section.choice("evidence", as: Evidence.self)
        let required = section.section("require")
        let require =
            section.has("require") || section.context.isCataloguing
            ? StepUpReader.demand(required, takesPresence: false) : nil
        let tokens = TargetReader.targets(section, "tokens")
        tokenPaths = tokens.map(\.path)
        let scopes = section.list("allow").compactMap { item -> (scope: BackendConfiguration.Scope, path: String)? in
            let clients = item.words("clients").map { Set($0.map { ClientName(unchecked: $0) }) }
            guard let provider = item.requiredText("provider", limit: 63) else { return nil }
            return (
                BackendConfiguration.Scope(provider: ProviderName(unchecked: provider), clients: clients), item.path
            )
        }
        allowPaths = scopes.map(\.path)
        if !section.has("sha256"), ranges.isEmpty {
            section.report(nil, "needs `sha256` or `peers`: how it proves itself")
        }
        if may.isEmpty {
            section.report(nil, "needs `may`: one or more of `introspect`, `token`, `forward-auth`, `handover`")
        }
        Self.check(
            section, may: may, forwards: forward, slides: slides, original: original, checksEvidence: evidence == .own)
        for range in ranges where range.isEverything { section.report("peers", "holds the whole internet (\(range))") }
        guard let name = BackendName(name) else {
            section.report(nil, "has a name that is not 1 to 63 letters, digits, `-`, `_` or `.`")
            return nil
        }
        var settings = BackendConfiguration(
            name: name, digest: digest, may: may, peers: ranges,
            allow: section.has("allow") ? scopes.map(\.scope) : nil, forwardAccessToken: forward, slides: slides)
        settings.originalRequest = original
        settings.origins = origins
        settings.checksEvidence = evidence == .own
        settings.require = require
        settings.tokens = tokens.map(\.target)
        self.settings = settings
    }

    /// Reports two kinds of faults: settings that have no effect with the permissions in `may`; and missing settings that these
    /// permissions need.
    private static func check(
        _ section: ConfigSection, may: Set<BackendPermission>, forwards: Bool, slides: Bool, original: Bool,
        checksEvidence: Bool
    ) {
        if forwards, !may.contains(.forwardAuth) {
            section.report("forward_access_token", "needs `forward-auth` in `may`")
        }
        if slides, !may.contains(.introspect) { section.report("slides", "needs `introspect` in `may`") }
        if original, !may.contains(.forwardAuth) { section.report("original_request", "needs `forward-auth` in `may`") }
        if section.has("origins"), !original, !may.contains(.handover) {
            section.report("origins", "needs `original_request: true`, or `handover` in `may`")
        }
        if section.has("require"), may.isDisjoint(with: [.forwardAuth, .token]) {
            section.report(
                "require", "needs `forward-auth` or `token` in `may`, because introspection makes no demands")
        }
        if section.has("tokens"), !may.contains(.token) { section.report("tokens", "needs `token` in `may`") }
        if may.contains(.handover), !section.has("origins") {
            section.report(nil, "needs `origins` for `handover`: whose tickets it redeems")
        }
        if checksEvidence, may.contains(.forwardAuth) {
            section.report(
                "evidence", "cannot be `own` with `forward-auth` in `may`, because the proof would not be verified")
        }
    }

    /// The party that verifies the proofs of bound sessions: broker or backend.
    private enum Evidence: String, CaseIterable { case broker, own }

    /// Reads `origins`, the allowed origins of original requests and of hand-over tickets.
    private static func origins(_ section: ConfigSection) -> ProofOrigins {
        let texts = section.texts("origins")
        for text in texts where ProofAddress(text).map({ $0.path != "/" || $0.origin != text }) ?? true {
            section.report("origins", "has `\(text)`, which is not an origin such as `https://app.example.com`")
        }
        return ProofOrigins(texts.compactMap { ProofAddress($0) })
    }
}
