import Broker
import BrokerProviders

/// One client of a provider, with its position in the file.
struct ClientSection: Sendable {
    let settings: ClientSettings
    /// The position of the client in the file, for rules that compare clients.
    let location: ClientLocation

    init?(name: String, provider shared: ProviderDraft, _ section: ConfigSection) {
        var provider = shared
        if provider.kind != .zephr, let own = section.choice("profile", as: ConformanceProfile.self),
            provider.wire.profile == nil
        {
            provider.adopt(own)
        }
        location = ClientLocation(
            path: section.path, line: section.line, redirectLine: section.line(of: "redirect_uris"))
        let kind = provider.kind
        var profile = ClientProfile(
            name: ClientName(unchecked: name),
            login: section.choice("login", among: [.broker, .app, .both]) ?? .broker,
            transport: section.choice("transport", among: [.cookie, .bearer]) ?? .cookie,
            redirectURIs: section.redirectURIs("redirect_uris"))
        profile.hostedCallbackTo = Self.hosted(section)
        profile.binding = BindingReader.read(section.section("binding"))
        profile.lifetimes = SessionSettings.lifetimes(section.section("session"), defaults: provider.lifetimes)
        profile.children = ChildrenReader.read(section, defaults: profile.lifetimes)
        var wire = provider.wire
        if kind == .zephr {
            profile.pkce = .unsupported
            profile.socialProviders = provider.socialProviders
            profile.platform = section.choice("platform", as: Platform.self)?.rawValue
            section.require("platform")
            settings = ClientSettings(profile: profile, clientID: "")
        } else {
            WireReader.read(section, into: &wire)
            if let path = shared.section?.path { ServerKeys.warn(client: section, provider: path) }
            profile.revocationReach = wire.revocation.reaches
            profile.signInLeeway = min(wire.idToken.leeway, .seconds(120))
            let whenAbsent = wire.tokenResponse.scopeWhenAbsent
            profile.assumesScope = whenAbsent.map { $0 == .requested } ?? (kind == .oidc || kind == .oauth2)
            profile.allowedParameters = WireReader.allowedParameters(section) ?? provider.allowedParameters
            profile.callbackParameters = section.words("callback_parameters") ?? provider.callbackParameters
            Self.read(section, kind: kind, defaults: provider, into: &profile)
            let clientID = section.requiredText("client_id", limit: 512) ?? ""
            let shared = CredentialReader.shared(
                section, over: provider.credentials, algorithm: provider.assertionAlgorithm)
            var authentication = CredentialReader.read(
                section, kind: kind, shared: shared, secretInBody: provider.secretInBody)
            if wire.profile != nil, kind == .oidc || kind == .oauth2 {
                let rules = FAPI2Rules(client: section, provider: provider.section)
                rules.expand(&authentication, &wire, shared)
                rules.check(profile, kind, authentication, wire)
                profile.demandsIssuer = true
            }
            profile.senderConstraint = wire.senderConstraint
            ImportReader(section: section, kind: kind).read(
                authentication, wire, hasIdentity: wire.identity.url != nil || provider.hasUserinfo, into: &profile)
            let oldSystem = MoveInReader(section: section, kind: kind).read(
                wire, hasIdentity: wire.identity.url != nil || provider.hasUserinfo, into: &profile)
            Self.checkPKCE(section, profile, authentication, kind)
            Self.checkAssertion(section, authentication, wire)
            if !provider.namesCertificate, !TLSReader.names(section) {
                Self.checkCertificate(section, authentication, wire)
            }
            Self.warnOfReserved(section, authentication, wire)
            var client = ClientSettings(
                profile: profile, clientID: clientID, authentication: authentication, wire: wire)
            client.oldSystem = oldSystem
            if kind == .oidc || kind == .oauth2 {
                client.redirectName = section.text("redirect_name", limit: 256)
                client.postLogoutRedirectURI = section.redirectURI("post_logout_redirect_uri")?.text
                client.trustedAudiences = section.words("trusted_audiences") ?? []
                if !client.trustedAudiences.isEmpty, !profile.nativeCode, !profile.importTokens, profile.moveIn == nil {
                    section.report(
                        "trusted_audiences", "is for clients with `native_code: true`, `import_tokens` or `move_in`")
                }
            }
            if kind == .clever {
                let start = section.section("app_start")
                if section.has("app_start") { start.require("sdk_version") }
                client.appStart = start.text("sdk_version", limit: 32)
            }
            settings = client
        }
        guard ClientName(name) != nil else {
            section.report(nil, "has a name that is not 1 to 63 letters, digits, `-`, `_` or `.`")
            return nil
        }
    }

    private enum Platform: String, CaseIterable { case ios, android, web }
    private enum NativeRedirect: String, CaseIterable { case omitted, empty }
    private enum Switch: String, CaseIterable { case on, off }

    private static func read(
        _ section: ConfigSection, kind: ProviderKind, defaults: ProviderDraft, into profile: inout ClientProfile
    ) {
        profile.scope = section.words("scope") ?? defaults.scope
        profile.pkce = section.choice("pkce", among: [.required, .unsupported]) ?? defaults.pkce
        if kind == .oidc || kind == .clever {
            let isOpenID = kind == .oidc ? defaults.nonce ?? true : defaults.isCleverOpenID
            profile.nonce = section.choice("nonce", as: Switch.self).map { $0 == .on } ?? isOpenID
        }
        if kind == .oidc || kind == .oauth2 {
            profile.nativeCode = section.flag("native_code", default: false)
            let redirect = section.choice("native_redirect", as: NativeRedirect.self)
            profile.nativeRedirect = redirect.map { $0 == .empty ? .empty : .omitted } ?? defaults.nativeRedirect
        }
        profile.handsOutAccessToken = section.flag("hand_out_access_token", default: false)
    }

    /// Reports a public client without PKCE, because anyone who has a code of the client could redeem it.
    ///
    /// Clever has no PKCE, so its public clients are accepted.
    private static func checkPKCE(
        _ section: ConfigSection, _ profile: ClientProfile, _ authentication: ClientAuthentication, _ kind: ProviderKind
    ) {
        guard profile.pkce == .unsupported, kind != .clever, case .none = authentication,
            !section.has("client_secret"), !section.context.isCataloguing
        else { return }
        section.report(
            "pkce", "cannot be `unsupported` for a client without a secret: anyone with the code could redeem it")
    }

    private static func checkAssertion(
        _ section: ConfigSection, _ authentication: ClientAuthentication, _ wire: WireSettings
    ) {
        guard case .privateKeyJWT = authentication, wire.assertion.keyHeader == .thumbprint,
            wire.assertion.thumbprint == nil
        else { return }
        section.report(
            "assertion", "needs `certificate: {file: …}` for `key_header: x5t#S256`, which the preset may set")
    }

    private static func checkCertificate(
        _ section: ConfigSection, _ authentication: ClientAuthentication, _ wire: WireSettings
    ) {
        let need = "needs `tls: {certificate, key}`, here or on the provider"
        switch authentication {
        case .tlsClientAuth, .selfSignedTLSClientAuth: section.report("auth", need)
        default: break
        }
        if wire.senderConstraint == .mtls { section.report("sender_constrained", need) }
    }

    /// Warns of a client secret with reserved characters.
    ///
    /// RFC 6749 section 2.3.1 requires that a client form-encodes these characters in HTTP Basic, but many servers do not decode
    /// them.
    private static func warnOfReserved(
        _ section: ConfigSection, _ authentication: ClientAuthentication, _ wire: WireSettings
    ) {
        guard case .clientSecretBasic(let secret) = authentication, wire.basicEncoding == .form,
            FormPairs.encode(secret.reveal()) != secret.reveal()
        else { return }
        section.warn(
            "client_secret",
            "has characters that HTTP Basic form-encodes: a server that does not decode them refuses it; then "
                + "the provider needs `basic_encoding: raw`")
    }

    private static func hosted(_ section: ConfigSection) -> String? {
        guard let text = section.text("hosted_callback_to", limit: 2048) else { return nil }
        guard let uri = RedirectURI(text), !RedirectScheme.forbidden.contains(uri.scheme),
            uri.scheme != "http" || uri.isLoopback
        else {
            section.report(
                "hosted_callback_to", "has to be an https link or the app's own scheme, without query and fragment")
            return nil
        }
        return text
    }
}

/// The position of a client in the file.
struct ClientLocation: Sendable {
    let path: String
    let line: Int?
    let redirectLine: Int?
}

/// Reads `clients.NAME.binding`, which decides whether a client's sessions belong to a key of the device.
enum BindingReader {
    /// The range of a pass's lifetime, which is short because a thief who sees a request's header fields can use the pass.
    private static let lifetimes = Duration.seconds(60)...Duration.seconds(900)

    static func read(_ section: ConfigSection) -> BindingPolicy {
        var policy = BindingPolicy()
        policy.mode = section.choice("mode") ?? policy.mode
        policy.evidence = section.choice("evidence") ?? policy.evidence
        policy.passLifetime = section.duration("pass", default: policy.passLifetime, in: lifetimes)
        if section.has("pass"), policy.evidence == .proof {
            section.warn("pass", "has no effect: with `evidence: proof` there are no passes")
        }
        return policy
    }
}

/// A Clover app's Site URL, which must cover every redirect URI.
struct CloverSite: Sendable {
    let url: WebURL

    /// Returns whether the Site URL covers a redirect URI: the origins are equal, and the path is the Site URL's path or below
    /// it.
    func covers(_ redirect: WebURL) -> Bool {
        guard redirect.origin == url.origin else { return false }
        let base = url.path.hasSuffix("/") ? String(url.path.dropLast()) : url.path
        return redirect.path == base || redirect.path.hasPrefix(base + "/")
    }
}
