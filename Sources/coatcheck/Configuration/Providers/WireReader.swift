import Broker
import BrokerProviders

/// Reads the details of the protocol with a provider, in the section of the provider or of a client.
///
/// The settings in a section override the settings that were read before. A client's settings override the settings of its
/// provider, and these override the preset.
enum WireReader {
    /// The parameters that only the broker may set (SEC-07).
    private static let reserved: Set<String> = [
        "client_id", "redirect_uri", "response_type", "state", "nonce", "code_challenge", "code_challenge_method",
        "scope", "request", "request_uri", "client_secret", "code", "code_verifier", "dpop_jkt",
    ]

    static func read(_ section: ConfigSection, into wire: inout WireSettings) {
        NotOffered.check(section)
        wire.basicEncoding = section.choice("basic_encoding", among: [.form, .raw]) ?? wire.basicEncoding
        wire.responseMode = section.choice("response_mode", among: [.query, .formPost]) ?? wire.responseMode
        wire.pushedAuthorization =
            section.choice("par", among: [.off, .optional, .required]) ?? wire.pushedAuthorization
        if let separator = section.scalar("scope_separator") {
            if [" ", ",", ";", "|", "+"].contains(separator.text) {
                wire.scopeSeparator = separator.text
            } else {
                section.report("scope_separator", "has to be one of a space, `,`, `;`, `|` and `+`")
            }
        }
        wire.scopeParameter = section.text("scope_parameter", limit: 64) ?? wire.scopeParameter
        wire.requiredScope = section.words("required_scope") ?? wire.requiredScope
        if section.has("authorization_parameters") || section.context.isCataloguing {
            wire.authorizationParameters = section.pairs("authorization_parameters").map { ($0.name, $0.value.text) }
        }
        for name in SignInDemands.faults(in: wire.authorizationParameters) {
            section.report("authorization_parameters", "holds a `\(name)` that cannot be read")
        }
        for name in wire.authorizationParameters.map(\.name) where reserved.contains(name) {
            section.report("authorization_parameters", "cannot hold `\(name)`: the broker sets it")
        }
        readRequest(section.section("token_request"), into: &wire.tokenRequest)
        readResponse(section.section("token_response"), into: &wire.tokenResponse)
        let refresh = section.section("refresh")
        wire.refresh = refresh.choice("mode", among: [.rotate, .keep, .singleUse, .none]) ?? wire.refresh
        readRevocation(section.section("revocation"), into: &wire.revocation)
        IdentityReader.read(section.section("identity"), into: &wire.identity)
        AssertionReader.read(section.section("assertion"), into: &wire.assertion)
        TLSReader.read(section, into: &wire.connection)
        wire.senderConstraint = section.choice("sender_constrained") ?? wire.senderConstraint
        DPoPReader.read(section.section("dpop"), into: &wire.dpop)
        IDTokenReader.read(section.section("id_token"), into: &wire.idToken)
    }

    /// Reads the names of parameters that a login request may add.
    static func allowedParameters(_ section: ConfigSection) -> Set<String>? {
        guard let names = section.words("allowed_parameters") else { return nil }
        for name in names where reserved.contains(name) {
            section.report("allowed_parameters", "cannot hold `\(name)`: the broker sets it")
        }
        return Set(names)
    }

    private static func readRequest(_ section: ConfigSection, into request: inout TokenRequestSettings) {
        request.encoding = section.choice("encoding", among: [.form, .json]) ?? request.encoding
        if let omit = section.words("omit") { request.omit = Set(omit) }
        if let rename = texts(section, "rename") {
            request.rename = Dictionary(rename.map { ($0.name, $0.value) }, uniquingKeysWith: { $1 })
        }
        request.parameters = texts(section, "parameters") ?? request.parameters
        request.headers = texts(section, "headers") ?? request.headers
        for header in request.headers where !isHeader(header) {
            section.report("headers", "holds something that cannot be a header field, or one that the broker sets")
        }
        request.idempotencyKey = section.flag("idempotency_key", default: request.idempotencyKey)
    }

    private static func readResponse(_ section: ConfigSection, into response: inout TokenResponseSettings) {
        response.path = section.pointer("path") ?? response.path
        if let fields = texts(section, "fields") {
            response.fields = Dictionary(fields.map { ($0.name, $0.value) }, uniquingKeysWith: { $1 })
        }
        response.expiresField = section.text("expires_field", limit: 64) ?? response.expiresField
        response.refreshExpiresField = section.text("refresh_expires_field", limit: 64) ?? response.refreshExpiresField
        response.expiresUnit = section.choice("expires_unit", among: [.seconds, .epochSeconds]) ?? response.expiresUnit
        response.defaultLifetime =
            section.optionalDuration("default_lifetime", in: .seconds(1) ... .seconds(400 * 86_400))
            ?? response.defaultLifetime
        NotOffered.check(section, list: "token_types")
        response.tokenTypes = section.words("token_types") ?? response.tokenTypes
        let scope = section.section("scope")
        response.scopeWhenAbsent =
            scope.choice("when_absent", among: [.requested, .unknown]) ?? response.scopeWhenAbsent
        response.scopeSeparator = scope.choice("separator", among: [.space, .comma]) ?? response.scopeSeparator
        response.deadGrants = DeadGrantReader.read(section) ?? response.deadGrants
        if let codes = section.words("invalid_grant_codes") { response.invalidGrantCodes = Set(codes) }
    }

    private static func readRevocation(_ section: ConfigSection, into revocation: inout RevocationSettings) {
        revocation.style =
            section.choice("style", among: [.rfc7009, .basicDelete, .bearerPost, .none]) ?? revocation.style
        revocation.hint = section.flag("hint", default: revocation.hint)
        revocation.bearerFallback = section.flag("bearer_fallback", default: revocation.bearerFallback)
        revocation.endSession = section.flag("end_session", default: revocation.endSession)
        revocation.reaches = section.choice("reaches", among: RevocationReach.allCases) ?? revocation.reaches
    }

    /// Reads a mapping of texts; nil if it is absent.
    static func texts(_ section: ConfigSection, _ key: String) -> [(name: String, value: String)]? {
        guard section.has(key) else {
            _ = section.node(key)
            return nil
        }
        return section.pairs(key).map { ($0.name, $0.value.text) }
    }

    private static func isHeader(_ header: (name: String, value: String)) -> Bool {
        let own: Set<String> = [
            "host", "authorization", "cookie", "content-length", "content-type", "transfer-encoding", "connection",
            "accept", "accept-encoding",
        ]
        let name = header.name.lowercased()
        return !own.contains(name) && (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D }
            && header.value.utf8.count <= 512 && header.value.utf8.allSatisfy { (0x20...0x7E).contains($0) }
    }
}
