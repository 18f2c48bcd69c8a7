import Broker
import BrokerProviders

/// Reads `clients.NAME.move_in`, which lets an app bring its session at the server that it had before.
struct MoveInReader {
    let section: ConfigSection
    let kind: ProviderKind

    private static let key = "move_in"

    private enum Subject: String, CaseIterable { case confirmed, believed }

    /// Reads the setting into the client's profile, and reports contradictions with the client.
    ///
    /// Returns the old system, if there is one.
    func read(_ wire: WireSettings, hasIdentity: Bool, into profile: inout ClientProfile) -> OldSystemSettings? {
        guard section.context.isCataloguing || section.has(Self.key) else {
            _ = section.node(Self.key)
            return nil
        }
        let move = section.section(Self.key)
        let from = move.section("from")
        if !section.context.isCataloguing {
            for key in ["from", "until"] { move.require(key) }
            if move.has("from") { for key in ["url", "credential"] { from.require(key) } }
        }
        let (until, subject) = (move.moment("until"), move.choice("subject", as: Subject.self) ?? .confirmed)
        let (cookie, perMinute) = (cookie(move), move.perMinute())
        let url = from.endpoint("url", withQuery: true)
        let credential = from.secret("credential")
        let trust = TLSReader.trust(from)
        let isInternal = from.flag("internal", default: false)
        // The rules of the FAPI profile refuse the key itself.
        guard wire.profile == nil, !section.context.isCataloguing else { return nil }
        check(wire, hasIdentity)
        if subject == .believed {
            move.warn(
                "subject",
                "is `believed`: for a session that lacks a refresh token, the old system can name any user")
        }
        guard let until, let url, let credential else { return nil }
        profile.moveIn = MoveInPolicy(
            until: until, cookie: cookie, isBelieved: subject == .believed, perMinute: perMinute)
        return OldSystemSettings(url: url, credential: credential, trust: trust, isInternal: isInternal)
    }

    private func check(_ wire: WireSettings, _ hasIdentity: Bool) {
        // Clover's tokens also need a merchant, which the old server's answer lacks. Clever lacks refresh tokens.
        guard kind == .oidc || kind == .oauth2 else {
            return section.report(Self.key, "is for the kinds `oidc` and `oauth2`")
        }
        if wire.refresh == .none { section.report(Self.key, "is for clients with refresh tokens") }
        if kind == .oauth2, !hasIdentity {
            section.report(
                Self.key, "needs `identity: {url}` or `endpoints: {userinfo}`, to know whose tokens they are")
        }
    }

    /// Reads the name of the old cookie, which has to be a token of RFC 6265 section 4.1.1.
    private func cookie(_ move: ConfigSection) -> String? {
        guard let name = move.text("cookie", limit: 128) else { return nil }
        let separators = Array("()<>@,;:\\\"/[]?={} \t".utf8)
        guard name.utf8.allSatisfy({ (0x21...0x7E).contains($0) && !separators.contains($0) }) else {
            move.report("cookie", "has to be the name of a cookie: visible ASCII, except spaces and separators")
            return nil
        }
        return name
    }
}
