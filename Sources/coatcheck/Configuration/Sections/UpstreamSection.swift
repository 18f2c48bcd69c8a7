import Broker

/// Is an API that the relay may call (`upstreams.NAME`).
struct UpstreamSection: Sendable {
    enum Credential: String, Sendable, CaseIterable { case bearer, zephrCookie = "zephr_cookie", none }

    /// Is one rule of the allow-list: methods (nil is any) and a path pattern.
    struct Rule: Sendable, Hashable {
        let methods: [String]?
        let path: String
        /// The rule as written.
        let text: String
    }

    let name: UpstreamName
    let baseURL: WebURL
    let providers: [String]
    let allow: [Rule]
    let credential: Credential?
    let requestHeaders: [String]
    let timeout: Duration
    let line: Int?
    let path: String

    init?(name: String, _ section: ConfigSection) {
        line = section.line
        path = section.path
        section.require("provider")
        section.require("allow")
        section.require("base_url")
        providers = section.words("provider") ?? []
        credential = section.choice("credential")
        timeout = section.duration("timeout", default: .seconds(30), in: .seconds(1) ... .seconds(600))
        requestHeaders = (section.words("request_headers") ?? []).compactMap { UpstreamSection.header($0, section) }
        allow = section.scalars("allow").compactMap { scalar in
            if let rule = UpstreamSection.rule(scalar.text) { return rule }
            section.context.report(
                "has to hold rules such as `GET /v3.0/**`: methods, a space and a path (`*` one segment, `**` the rest)",
                path: section.child("allow"), line: scalar.line)
            return nil
        }
        guard let text = section.endpoint("base_url"), let url = WebURL(text) else { return nil }
        baseURL = url
        guard let name = UpstreamName(name) else {
            section.report(nil, "has a name that is not 1 to 63 letters, digits, `-`, `_` or `.`")
            return nil
        }
        self.name = name
    }

    /// The header fields that the relay sets or guards itself.
    private static let guarded: Set<String> = [
        "authorization", "cookie", "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade",
        "keep-alive", "proxy-authorization", "proxy-authenticate", "proxy-connection", "expect", "forwarded",
        "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-request-id", "set-cookie", "via",
    ]

    private static func header(_ text: String, _ section: ConfigSection) -> String? {
        let name = text.lowercased()
        let isToken = name.utf8.allSatisfy {
            (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D
        }
        guard isToken, !guarded.contains(name), !name.hasPrefix("x-coatcheck-"), !name.hasPrefix("x-auth-") else {
            section.report("request_headers", "holds a header that cannot be passed on")
            return nil
        }
        return name
    }

    private static func rule(_ text: String) -> Rule? {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 2, let words = parts.first, let path = parts.last, path.hasPrefix("/"), !path.contains("//")
        else { return nil }
        let segments = path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            if segment == "**" ? index != segments.count - 1 : segment != "*" && segment.contains("*") { return nil }
            if segment == "." || segment == ".." { return nil }
        }
        guard path.utf8.allSatisfy({ (0x21...0x7E).contains($0) }), !path.contains(where: { "?#\\%;".contains($0) }) else { return nil }
        if words == "ANY" { return Rule(methods: nil, path: String(path), text: text) }
        let methods = words.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        let known: Set<String> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        guard !methods.isEmpty, methods.allSatisfy(known.contains) else { return nil }
        return Rule(methods: methods, path: String(path), text: text)
    }
}
