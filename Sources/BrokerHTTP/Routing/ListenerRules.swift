import Broker
import BrokerWire
import HTTPTypes
import NIOCore

/// The rules that all routes of a listener share: our names, who the client is, and which web origins may call.
struct ListenerRules: Sendable {
    private let configuration: HTTPConfiguration
    private let name: PublicName
    private let managementName: ManagementName
    private let cookies: CookieWriter
    private let kind: ListenerName

    init(_ configuration: HTTPConfiguration, name: PublicName, cookies: CookieWriter, kind: ListenerName) {
        self.configuration = configuration
        self.name = name
        self.cookies = cookies
        self.kind = kind
        managementName = ManagementName(configuration.managementHosts)
    }

    /// Whether a TCP peer can be a backend here.
    ///
    /// On the public listener the peer is the proxy in front, through which everybody comes.
    var takesPeersAsBackends: Bool { kind == .backend }

    /// Whether answers tell browsers to stay with https.
    ///
    /// Backends pass their answers on under names of their own, for which we cannot speak; operators come by address.
    var hasStrictTransport: Bool { kind == .public && name.isSecure }

    /// Throws `wrong_host` for a name that is not ours (SEC-103).
    func checkName(_ call: Call) throws(BrokerProblem) {
        guard let authority = call.request.authority, accepts(authority, call) else {
            throw BrokerProblem(.wrongHost)
        }
        guard kind != .management else { return }
        if name.isSecure, !call.fields.forwardedProto.isEmpty, isTrusted(call.connection?.address) {
            try checkScheme(call)
        }
    }

    /// Throws for a client that reached a trusted proxy over plain http.
    ///
    /// A redirect would hide that its cookie leaked (SEC-104).
    private func checkScheme(_ call: Call) throws(BrokerProblem) {
        let fields = call.fields.forwardedProto
        if fields.count == 1, fields.first?.isASCIIEqual(to: "https") == true { return }
        let schemes = ForwardedSchemes(fields)
        switch schemes.verdict(behind: schemes.isList ? client(of: call).hops : 0) {
        case .secure: return
        case .plain(let entry):
            throw BrokerProblem(
                .invalidRequest, detail: "Use https.",
                privateDetail: "a trusted proxy's X-Forwarded-Proto is plain http: entry \(entry) from the right")
        case .tooShort(let entries, let hops):
            throw BrokerProblem(
                .invalidRequest,
                detail: "X-Forwarded-Proto has fewer entries than X-Forwarded-For has trusted hops. "
                    + "Each proxy has to append to both, or one proxy has to set X-Forwarded-Proto.",
                privateDetail: "X-Forwarded-Proto has \(entries) entries behind \(hops) hops")
        }
    }

    private func accepts(_ host: String, _ call: Call) -> Bool {
        switch kind {
        case .public: name.accepts(host)
        case .backend: name.accepts(host) || isAddress(host, of: call.connection?.localAddress)
        case .management: managementName.accepts(host)
        }
    }

    private func isAddress(_ host: String, of local: SocketAddress?) -> Bool {
        guard let authority = Authority(host), authority.port ?? (configuration.endsTLS ? 443 : 80) == local?.port,
            let address = local?.ipAddress.flatMap({ IPAddress($0) })
        else { return false }
        return authority.address == address || (authority.isLoopback && address.isLoopback)
    }

    private func isTrusted(_ peer: IPAddress?) -> Bool {
        guard let peer else { return false }
        return configuration.trustedProxies.contains { $0.contains(peer) }
    }

    /// Works out whose request it is (SEC-104).
    func client(of call: Call) -> ClientAddress {
        ClientAddress(
            peer: call.connection?.address, peerText: call.connection?.peerText ?? "-",
            forwardedFor: call.fields.forwardedFor, trusted: configuration.trustedProxies)
    }

    /// Returns the peer that speaks for others and is not believed: a proxy that `trusted_proxies` lacks, perhaps.
    func untrustedProxy(of call: Call) -> String? {
        guard kind != .management, !call.fields.forwardedFor.isEmpty, !isTrusted(call.connection?.address) else {
            return nil
        }
        return call.connection?.peerText
    }

    /// Returns the W3C context that the request came with, and whether its caller's decisions are believed.
    func traceOrigin(of call: Call) -> TraceOrigin? {
        guard kind != .management else { return nil }
        let fields = call.request.headerFields[fields: .traceparent]
        // Of two nobody can say which is meant.
        guard let field = fields.first, fields.dropFirst().isEmpty else { return nil }
        return TraceOrigin(traceparent: field.value, isTrusted: isTrusted(call.connection?.address))
    }

    /// Returns whether the request brought our session cookie, well formed or not.
    func hasSessionCookie(_ fields: RequestFields) -> Bool {
        kind != .management && CookieReader.value(of: cookies.sessionName, in: fields.cookies) != .absent
    }

    /// Returns whether the request brought the cookie of a web child, well formed or not.
    func hasWebCookie(_ fields: RequestFields) -> Bool {
        kind != .management && CookieReader.value(of: cookies.webName, in: fields.cookies) != .absent
    }

    /// Returns whether the request brought the cookie of a pass, well formed or not.
    func hasPassCookie(_ fields: RequestFields) -> Bool {
        kind != .management && CookieReader.value(of: cookies.passName, in: fields.cookies) != .absent
    }

    /// Throws `cross_origin` where a page of a web origin that is not listed makes a browser act with our cookie, or
    /// with nothing (SEC-45).
    func checkOrigin(_ call: Call, _ route: Route) throws(BrokerProblem) {
        guard kind == .public, !route.traits.contains(.anyOrigin) else { return }
        guard !call.fields.origins.isEmpty || !call.fields.fetchSites.isEmpty else { return }
        // Any app can claim such an origin, so its cookies are refused even for reading (decision 86).
        let isShell = call.fields.origins.contains(where: configuration.shellOrigins.contains)
        if isShell, hasAnyCookie(call.fields) {
            throw BrokerProblem(
                .crossOrigin,
                detail: "Cookies are refused from an app in a web shell; use a client with `transport: bearer`.",
                privateDetail: "a cookie from the origin of a web shell")
        }
        let method = call.request.method
        let isSafe = method == .get || method == .head || method == .options
        guard !isSafe || route.traits.contains(.sameOriginAlways) else { return }
        let hasOurCookie =
            hasSessionCookie(call.fields) || hasWebCookie(call.fields)
            || CookieReader.value(of: cookies.loginName, in: call.fields.cookies) != .absent
        guard hasOurCookie || call.fields.authorization.isEmpty else { return }
        guard isAllowed(call.fields) else { throw BrokerProblem(.crossOrigin) }
    }

    /// Returns whether the request brought any of the broker's cookies, even a malformed one.
    private func hasAnyCookie(_ fields: RequestFields) -> Bool {
        [cookies.sessionName, cookies.loginName, cookies.passName, cookies.webName, cookies.handoverName].contains {
            CookieReader.value(of: $0, in: fields.cookies) != .absent
        }
    }

    private func isAllowed(_ fields: RequestFields) -> Bool {
        guard fields.origins.count <= 1, fields.fetchSites.count <= 1 else { return false }
        if listedOrigin(fields) != nil { return true }
        if let site = fields.fetchSites.first { return site == "same-origin" || site == "none" }
        return fields.origins.first == name.origin
    }

    /// Answers a CORS preflight of a listed origin; nil for anything else (SEC-46).
    func preflight(_ call: Call, methods: String) -> Answer? {
        guard kind == .public, call.request.method == .options, call.fields.requestMethod != nil,
            listedOrigin(call.fields) != nil
        else { return nil }
        var fields = Answers.fields(call.requestID)
        fields.append(HTTPField(name: .accessControlAllowMethods, value: methods))
        fields.append(Self.allowHeaders)
        fields.append(Self.maxAge)
        return Answer(.noContent, fields)
    }

    /// Adds the CORS fields for listed origins, never a wildcard, and says that the answer varies.
    func addOriginFields(to fields: inout [HTTPField], _ call: Call) {
        guard kind == .public, !configuration.allowedOrigins.isEmpty || !configuration.shellOrigins.isEmpty else {
            return
        }
        fields.append(ConstantFields.varyOrigin)
        guard let origin = listedOrigin(call.fields) else { return }
        fields.append(HTTPField(name: .accessControlAllowOrigin, value: origin))
        if configuration.allowedOrigins.contains(origin) { fields.append(ConstantFields.allowCredentials) }
        fields.append(ConstantFields.exposeHeaders)
    }

    private func listedOrigin(_ fields: RequestFields) -> String? {
        guard fields.origins.count == 1, let origin = fields.origins.first,
            configuration.allowedOrigins.contains(origin) || configuration.shellOrigins.contains(origin)
        else { return nil }
        return origin
    }

    private static let allowHeaders = HTTPField(
        name: .accessControlAllowHeaders,
        value: "Accept, Authorization, Content-Type, Content-Encoding, If-Match, If-None-Match, If-Modified-Since, "
            + "If-Unmodified-Since, If-Range, Range, Idempotency-Key, traceparent, tracestate, DPoP, Coatcheck-Pass, "
            + "Coatcheck-Presence")
    private static let maxAge = HTTPField(name: .accessControlMaxAge, value: "600")
}

/// A listener of the broker, by the name that logs, metrics and a socket's hand-over give it; what it is for decides the
/// rules that its requests are held to.
package enum ListenerName: String, Sendable, CaseIterable {
    /// Apps and browsers, and backends where they have no listener of their own.
    case `public`
    /// Backends alone (`server.backend_listen`); the one where a TCP peer can be a backend.
    case backend
    /// Operators (`management.listen`).
    case management
}

/// The broker's name to the outside: the accepted names, our origin, and whether this is a development set-up.
struct PublicName: Sendable {
    /// Whether `public_url` is https: cookies have their prefix and `Secure`.
    let isSecure: Bool
    /// Whether `public_url` is at a loopback name: nobody else can reach us, so limits spare loopback peers.
    let isLoopback: Bool
    /// Our own origin, as browsers write it.
    let origin: String
    private let accepted: Set<String>

    /// Creates it; `further` are names accepted beside the configured ones.
    init(_ configuration: HTTPConfiguration, further: [String] = []) {
        let url = configuration.publicURL
        isSecure = url.hasPrefix("https://")
        let rest = url.dropFirst(isSecure ? 8 : 7)
        let text = String(rest.prefix { $0 != "/" })
        let authority = Authority(text)
        isLoopback = authority?.isLoopback ?? false
        let standardPort = isSecure ? 443 : 80
        let host = authority?.host ?? text
        let port = authority?.port ?? standardPort
        origin = (isSecure ? "https://" : "http://") + host + (port == standardPort ? "" : ":\(port)")
        var accepted: Set<String> = []
        for name in [text] + configuration.hosts + further {
            guard let authority = Authority(name) else { continue }
            if let port = authority.port {
                accepted.insert("\(authority.host):\(port)")
                if port == standardPort { accepted.insert(authority.host) }
            } else {
                accepted.formUnion([authority.host, "\(authority.host):\(port)", "\(authority.host):\(standardPort)"])
            }
        }
        self.accepted = accepted
    }

    /// Returns whether a `Host` names us: whole names, ports included (SEC-90, SEC-103).
    func accepts(_ host: String) -> Bool {
        if accepted.contains(host) { return true }
        guard let authority = Authority(host) else { return false }
        if isLoopback, authority.isLoopback { return true }
        return accepted.contains(authority.port.map { "\(authority.host):\($0)" } ?? authority.host)
    }
}

/// The names that the management listener is reached by (`management.hosts`).
///
/// A page whose name was made to point at this machine sends that name as `Host`, and must not read metrics (DNS
/// rebinding); an address needs no resolving, so it cannot be made to point elsewhere.
struct ManagementName: Sendable {
    private let accepted: Set<String>

    /// Creates it; a name without a port is accepted with any.
    init(_ hosts: [String]) {
        accepted = Set(hosts.compactMap { Authority($0) }.map { Self.text($0.host, $0.port) })
    }

    /// Returns whether a `Host` is a loopback name, an address, or a configured name.
    func accepts(_ host: String) -> Bool {
        guard let authority = Authority(host) else { return false }
        return authority.isLoopback || authority.address != nil || accepted.contains(authority.host)
            || accepted.contains(Self.text(authority.host, authority.port))
    }

    private static func text(_ host: String, _ port: Int?) -> String { port.map { "\(host):\($0)" } ?? host }
}

extension Authority {
    /// The host as an IP address, or nil when it is a name.
    var address: IPAddress? {
        host.hasPrefix("[") ? IPAddress(host.dropFirst().dropLast()) : IPAddress(host)
    }

    /// Whether the host is a loopback name or address.
    var isLoopback: Bool { IPAddress.isLoopback(urlHost: host) }
}

extension ClientConnection {
    /// The TCP peer's address.
    var address: IPAddress? { peer.map { IPAddress(high: $0.high, low: $0.low) } }
}
