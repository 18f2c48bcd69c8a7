import Broker

/// Is what the file says about one client of a provider.
struct ClientSection: Sendable {
    enum Authentication: String, Sendable, CaseIterable {
        case none
        case clientSecretBasic = "client_secret_basic"
        case clientSecretPost = "client_secret_post"
        case privateKeyJWT = "private_key_jwt"
        case blankSecretBasic = "blank_secret_basic"
    }
    enum Login: String, Sendable, CaseIterable { case broker, app, both }
    enum Transport: String, Sendable, CaseIterable { case cookie, bearer }
    enum PKCE: String, Sendable, CaseIterable { case required, unsupported }
    enum Nonce: String, Sendable, CaseIterable { case on, off }
    enum Platform: String, Sendable, CaseIterable { case ios, android, web }

    let name: ClientName
    /// Empty for Zephr, whose clients have none.
    let clientID: String
    let secret: Secret?
    /// Nil when the file leaves it open: the secret decides.
    let auth: Authentication?
    let redirectURIs: [RedirectURI]
    let scope: [String]?
    let login: Login
    let transport: Transport
    let pkce: PKCE?
    let nonce: Nonce?
    let nativeCode: Bool
    let importTokens: Bool
    let hostedCallbackTo: String?
    let platform: Platform?
    let lifetimes: SessionLifetimes
    let wire: WireSection?
    /// Where it stands, for the rules that compare clients.
    let section: ClientPlace

    init?(name: String, kind: ProviderKind, _ section: ConfigSection, defaults: SessionLifetimes) {
        redirectURIs = section.redirectURIs("redirect_uris")
        login = section.choice("login") ?? .broker
        transport = section.choice("transport") ?? .cookie
        hostedCallbackTo = Self.hosted(section)
        lifetimes = SessionSettings.lifetimes(section.section("session"), defaults: defaults)
        self.section = ClientPlace(path: section.path, line: section.line, redirectLine: section.line(of: "redirect_uris"))
        if kind == .zephr {
            clientID = ""
            secret = nil
            auth = nil
            scope = nil
            pkce = nil
            nonce = nil
            nativeCode = false
            importTokens = false
            wire = nil
            platform = section.choice("platform")
            section.require("platform")
        } else {
            clientID = section.requiredText("client_id", limit: 512) ?? ""
            secret = section.secret("client_secret")
            auth = section.choice("auth")
            scope = section.words("scope")
            pkce = section.choice("pkce")
            nonce = kind == .oidc || kind == .clever ? section.choice("nonce") : nil
            nativeCode = kind == .oidc || kind == .oauth2 ? section.flag("native_code", default: false) : false
            importTokens = kind == .clover ? section.flag("import_tokens", default: false) : false
            wire = WireSection(section)
            platform = nil
            ClientRules.check(
                section, auth: auth, hasKey: wire?.privateKey != nil || wire?.apple != nil, kind: kind, pkce: pkce)
        }
        guard let name = ClientName(name) else {
            section.report(nil, "has a name that is not 1 to 63 letters, digits, `-`, `_` or `.`")
            return nil
        }
        self.name = name
    }

    private static func hosted(_ section: ConfigSection) -> String? {
        guard let text = section.text("hosted_callback_to", limit: 2048) else { return nil }
        guard let uri = RedirectURI(text), !RedirectScheme.forbidden.contains(uri.scheme),
            uri.scheme != "http" || uri.isLoopback
        else {
            section.report("hosted_callback_to", "has to be an https link or the app's own scheme, without query and fragment")
            return nil
        }
        return text
    }
}

/// Is where a client stands in the file.
struct ClientPlace: Sendable {
    let path: String
    let line: Int?
    let redirectLine: Int?
}
