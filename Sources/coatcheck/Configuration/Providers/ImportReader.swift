import Broker
import BrokerProviders

/// Reads `clients.NAME.import_tokens`, which lets an app post tokens that it already holds.
struct ImportReader {
    let section: ConfigSection
    let kind: ProviderKind

    private static let key = "import_tokens"

    /// The kinds whose apps got tokens from an SDK of the provider, so that imports are always accepted.
    private var isEndless: Bool { kind == .clover || kind == .clever }

    /// Reads the setting into the client's profile, and reports contradictions with the client.
    func read(
        _ authentication: ClientAuthentication, _ wire: WireSettings, hasIdentity: Bool,
        into profile: inout ClientProfile
    ) {
        if section.context.isCataloguing {
            _ = window(of: section.section(Self.key))
            return
        }
        guard section.has(Self.key) else {
            _ = section.node(Self.key)
            return
        }
        if section.isScalar(Self.key) {
            guard isEndless else {
                // Only `true` needs an end.
                if section.flag(Self.key, default: false) {
                    section.report(Self.key, "has to be `{until: DATE}`, the end of the move")
                }
                return
            }
            profile.importTokens = section.flag(Self.key, default: false)
            return
        }
        let (until, isConfidential, perMinute) = window(of: section.section(Self.key))
        // The rules of the FAPI profile refuse the key itself.
        guard wire.profile == nil else { return }
        profile.importTokens = true
        profile.importsUntil = until
        profile.importsPerMinute = perMinute
        guard !isEndless else { return }
        if wire.refresh == .none {
            section.report(Self.key, "is for clients with refresh tokens")
        }
        if kind == .oauth2, !hasIdentity {
            section.report(
                Self.key, "needs `identity: {url}` or `endpoints: {userinfo}`, to know whose tokens they are")
        }
        check(authentication, isConfidential)
    }

    /// Reads the mapping: the end of the time for imports, whether the client may be confidential, and the limit of an address.
    private func window(of window: ConfigSection) -> (until: WallTime?, isConfidential: Bool, perMinute: Int?) {
        if !window.context.isCataloguing { window.require("until") }
        return (window.moment("until"), window.flag("confidential", default: false), window.perMinute())
    }

    /// Reports a client with a secret or a key.
    ///
    /// A thief needs the secret to use a confidential client's refresh token (RFC 6749 section 10.4). With
    /// `import_tokens`, the broker adds the secret for any caller.
    private func check(_ authentication: ClientAuthentication, _ isConfidential: Bool) {
        if case .none = authentication {
            if isConfidential {
                section.warn(Self.key, "has `confidential: true`, which only affects clients with a secret or a key")
            }
            return
        }
        guard isConfidential else {
            return section.report(
                Self.key,
                "is for clients with `auth: none`: with it, anyone who has a copy of one of this client's refresh tokens gets "
                    + "a session; if your app's tokens are this client's, add `confidential: true`")
        }
        section.warn(
            Self.key,
            "lets anyone who has a copy of one of this client's refresh tokens make a session of it, because the broker adds "
                + "the client's secret")
    }
}

extension ConfigSection {
    /// Reads `per_minute`, the number of imports or moves that one address may begin in a minute; nil if the key is missing.
    func perMinute() -> Int? {
        let value = integer("per_minute", default: 0, in: 1...1_000_000)
        return value == 0 ? nil : value
    }

    /// Reads a moment: a date, which means the end of that day in UTC, or an instant of RFC 3339.
    func moment(_ key: String) -> WallTime? {
        guard let text = text(key, limit: 64) else { return nil }
        if let moment = MomentText.parse(text) { return moment }
        report(key, "has to be a date, such as `2027-03-31`, or an instant, such as `2027-03-31T18:00:00Z`")
        return nil
    }
}
