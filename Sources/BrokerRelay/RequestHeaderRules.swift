package import Broker
package import HTTPTypes
package import NIOHTTP1

/// The rules that decide which fields of an app's request are sent to the upstream (SEC-75, SEC-76).
///
/// The app's hop-by-hop fields are removed, and then an allow-list applies. The broker's fields are added last, so the app
/// cannot add to them, replace or remove them.
package enum RequestHeaderRules {
    private static let passed: Set<String> = [
        "accept", "accept-language", "accept-encoding", "content-type", "content-encoding", "range", "user-agent",
        "idempotency-key", "traceparent", "tracestate",
    ]

    /// The field names that no configuration can allow.
    ///
    /// Most of the names are credentials, framing and hop-by-hop fields. Upstreams or proxies trust some of the other names,
    /// such as `X-Real-IP`. Others, such as `X-HTTP-Method`, would bypass the allow-list of methods and paths.
    private static let reserved: Set<String> = [
        "authorization", "cookie", "cookie2", "host", "connection", "keep-alive", "te", "trailer", "transfer-encoding",
        "upgrade", "http2-settings", "content-length", "expect", "via", "forwarded", "x-real-ip", "x-request-id",
        "x-client-ip", "true-client-ip", "cf-connecting-ip", "client-ip", "x-original-url", "x-original-uri",
        "x-rewrite-url", "x-http-method", "x-http-method-override", "x-method-override", "early-data", "dpop",
    ]
    private static let reservedPrefixes = [
        "proxy-", "x-forwarded-", "x-auth-", "x-authenticated-", "coatcheck-", "x-coatcheck-", "x-remote-", "remote-",
        "sec-websocket-", "x-envoy-", "x-amzn-oidc-", "x-goog-iap-", "x-goog-authenticated-", "x-ms-client-principal",
        "x-ms-token-",
    ]

    /// Checks a name of `request_headers` and returns it in lower case.
    package static func extraName(_ text: String) throws(UpstreamFault) -> String {
        let name = text.lowercased()
        guard HTTPField.Name(name) != nil, !name.contains("_") else {
            throw UpstreamFault("request_headers", "`\(text)` is not a field name (names with `_` are never sent)")
        }
        guard !reserved.contains(name), !reservedPrefixes.contains(where: name.hasPrefix) else {
            throw UpstreamFault("request_headers", "`\(text)` is the relay's to set or to drop")
        }
        return name
    }

    /// Returns the fields to send upstream.
    ///
    /// - Parameters:
    ///   - fields: the fields that the app sent.
    ///   - extra: further names that may pass, in lower case.
    ///   - host: the upstream's authority.
    ///   - requestID: the broker's `X-Request-Id`.
    ///   - span: the call's span, which replaces the app's span; nil if tracing is off.
    ///   - credential: the field name and value that carry the token.
    ///   - proof: the field with the token's proof; nil if the token needs no proof.
    /// - Returns: the fields in the type of NIO's HTTP/1 encoder.
    package static func headers(
        from fields: HTTPFields, extra: Set<String>, host: String, requestID: String,
        span: (any TraceSpan)? = nil, credential: (name: String, value: String),
        proof: (name: String, value: String)? = nil
    ) -> HTTPHeaders {
        var options = ConnectionOptions()
        for field in fields where field.name == .connection { options.add(field.value) }
        var list: [(String, String)] = []
        list.reserveCapacity(12)
        list.append(("Host", host))
        for field in fields {
            let name = field.name.canonicalName
            guard passed.contains(name) || name.hasPrefix("if-") || extra.contains(name), !options.names(name),
                !name.utf8.contains(0x5F)
            else { continue }
            // `traceparent` is replaced by the broker's own. `tracestate` is sent only if the broker's span continues the
            // caller's trace, because a `tracestate` is meaningless in another trace.
            if let span, name == "traceparent" || (name == "tracestate" && !span.continuesCaller) { continue }
            list.append((field.name.rawName, field.value))
        }
        list.append((credential.name, credential.value))
        if let proof { list.append((proof.name, proof.value)) }
        list.append(("X-Request-Id", requestID))
        if let span { list.append(("traceparent", span.traceparent)) }
        return HTTPHeaders(list)
    }

    /// Returns whether the app asks to change the connection to another protocol than HTTP/2 (SEC-80).
    ///
    /// Some clients offer HTTP/2 (`h2c`), for example Java's client by default. They continue with HTTP/1.1 if the offer is
    /// ignored (RFC 9110 section 7.8).
    package static func asksForUpgrade(_ fields: HTTPFields) -> Bool {
        var offersHTTP2 = false
        var namesUpgrade = false
        for field in fields {
            switch field.name.canonicalName {
            case "upgrade":
                guard isHTTP2(field.value) else { return true }
                offersHTTP2 = true
            case "connection" where field.value.lowercased().contains("upgrade"): namesUpgrade = true
            default: continue
            }
        }
        return namesUpgrade && !offersHTTP2
    }

    /// Whether a list of protocols is `h2c` alone.
    private static func isHTTP2(_ protocols: String) -> Bool {
        if protocols == "h2c" { return true }
        let names = protocols.split { $0 == "," || $0 == " " || $0 == "\t" }
        return !names.isEmpty && names.allSatisfy { $0.lowercased() == "h2c" }
    }
}

/// The fields that a `Connection` field names.
///
/// Such fields belong to one hop and are not forwarded (RFC 9110 section 7.6.1).
struct ConnectionOptions {
    private var names: Set<String> = []

    /// Adds the options of one `Connection` (or `Proxy-Connection`) value.
    mutating func add(_ value: String) {
        if value == "keep-alive" || value == "close" { return }
        for option in value.split(separator: ",") {
            let trimmed = option.drop { $0 == " " || $0 == "\t" }
            guard let end = trimmed.lastIndex(where: { $0 != " " && $0 != "\t" }) else { continue }
            names.insert(trimmed[...end].lowercased())
        }
    }

    /// Returns whether the `Connection` field names a field; `name` is in lower case.
    func names(_ name: String) -> Bool { !names.isEmpty && names.contains(name) }
}
