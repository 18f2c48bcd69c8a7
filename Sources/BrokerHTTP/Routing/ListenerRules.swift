import Broker
import BrokerWire
import HTTPTypes
import NIOCore

/// The rules that all routes of a listener share: the broker's names, the client's address and the allowed web origins.
struct ListenerRules: Sendable {
    private let configuration: HTTPConfiguration
    private let name: PublicName
    private let managementName: ManagementName
    private let cookies: CookieWriter
    private let kind: ListenerName
    /// Whether answers require browsers to use https from then on.
    ///
    /// Only the public listener's answers require it. Backends pass answers on under their own host names, and operators use
    /// addresses, so the broker must not decide for them.
    let hasStrictTransport: Bool

    init(_ configuration: HTTPConfiguration, name: PublicName, cookies: CookieWriter, kind: ListenerName) {
        self.configuration = configuration
        self.name = name
        self.cookies = cookies
        self.kind = kind
        hasStrictTransport = kind == .public && name.isSecure
        managementName = ManagementName(configuration.managementHosts)
    }

    /// Whether a TCP peer's address can identify a backend on this listener.
    ///
    /// On the public listener, the peer may be a proxy that all clients use, so its address identifies no backend.
    var takesPeersAsBackends: Bool { kind == .backend }

    /// The paths of the management listener's health probes.
    private static let healthPaths: Set<String> = ["/livez", "/readyz"]

    /// Returns whether an HTTP/1.0 request for a target is answered without a `Host`, for health checks of balancers (decision
    /// 91).
    func answersWithoutHost(_ target: String) -> Bool { kind == .management && Self.healthPaths.contains(target) }

    /// Throws `wrong_host` unless the request's `Host` is a name of the broker (SEC-103).
    ///
    /// Also throws `invalid_request` if the public URL is https, and a trusted proxy reports another scheme or too few schemes.
    func checkName(_ call: Call) throws(BrokerProblem) {
        guard let authority = call.request.authority else {
            guard answersWithoutHost(call.request.path ?? "") else { throw BrokerProblem(.wrongHost) }
            return
        }
        guard accepts(authority, call) else { throw BrokerProblem(.wrongHost) }
        guard kind != .management else { return }
        if name.isSecure, !call.fields.forwardedProto.isEmpty, isTrusted(call.connection?.address) {
            try checkScheme(call)
        }
    }

    /// Throws if a trusted proxy reports that the client used plain http.
    ///
    /// The broker refuses such a request instead of redirecting it, because a redirect would hide that the client's cookie
    /// leaked (SEC-104).
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

    /// Returns the client's address (SEC-104).
    func client(of call: Call) -> ClientAddress {
        ClientAddress(
            peer: call.connection?.address, peerText: call.connection?.peerText ?? "-",
            forwardedFor: call.fields.forwardedFor, trusted: configuration.trustedProxies)
    }

    /// Returns the untrusted peer that sent `X-Forwarded-For`; it may be a proxy that is missing in `trusted_proxies`.
    func untrustedProxy(of call: Call) -> String? {
        guard kind != .management, !call.fields.forwardedFor.isEmpty, !isTrusted(call.connection?.address) else {
            return nil
        }
        return call.connection?.peerText
    }

    /// Returns the W3C trace context of the request, and whether the broker trusts its caller's decision to record the
    /// trace.
    func traceOrigin(of call: Call) -> TraceOrigin? {
        guard kind != .management else { return nil }
        let fields = call.request.headerFields[fields: .traceparent]
        // Two `traceparent` fields are both ignored, because the intended one is unknown.
        guard let field = fields.first, fields.dropFirst().isEmpty else { return nil }
        return TraceOrigin(traceparent: field.value, isTrusted: isTrusted(call.connection?.address))
    }

    /// Returns whether the request has the broker's session cookie, even a malformed one.
    func hasSessionCookie(_ fields: RequestFields) -> Bool {
        kind != .management && CookieReader.value(of: cookies.sessionName, in: fields.cookies) != .absent
    }

    /// Returns whether the request has the cookie of a web child, even a malformed one.
    func hasWebCookie(_ fields: RequestFields) -> Bool {
        kind != .management && CookieReader.value(of: cookies.webName, in: fields.cookies) != .absent
    }

    /// Returns whether the request has the cookie of a pass, even a malformed one.
    func hasPassCookie(_ fields: RequestFields) -> Bool {
        kind != .management && CookieReader.value(of: cookies.passName, in: fields.cookies) != .absent
    }

    /// Throws `cross_origin` for a browser's request that an unlisted origin caused, if two conditions hold (SEC-45).
    ///
    /// - The method is not safe, or the route has `sameOriginAlways`.
    /// - The request has the cookie of a session, a login or a web child, or it has no `Authorization`.
    ///
    /// Also throws `cross_origin` for every request from a web shell with one of the broker's cookies.
    func checkOrigin(_ call: Call, _ route: Route) throws(BrokerProblem) {
        guard kind == .public, !route.traits.contains(.anyOrigin) else { return }
        guard !call.fields.origins.isEmpty || !call.fields.fetchSites.isEmpty else { return }
        // Any app can send the origin of a web shell. So requests with this origin and a cookie are refused, even GET
        // requests (decision 86).
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

    /// Returns whether the request has any of the broker's cookies, even a malformed one.
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

    /// Answers a CORS preflight of a listed origin; nil otherwise (SEC-46).
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

    /// Adds the CORS fields for a listed origin, never a wildcard, and `Vary`.
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

/// The host names that the management listener accepts (`management.hosts`).
///
/// In DNS rebinding, an attacker makes a name resolve to this machine, and a page sends that name as `Host`. Such a page must
/// not read metrics. An IP address as `Host` is safe, because a browser does not look it up in DNS.
struct ManagementName: Sendable {
    private let accepted: Set<String>

    /// Creates the names; a name without a port is accepted with any port.
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
    /// The host as an IP address; nil if it is a name.
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
