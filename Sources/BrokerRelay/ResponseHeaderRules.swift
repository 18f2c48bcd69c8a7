package import HTTPTypes
package import NIOHTTP1

/// The rules that decide which fields of an upstream's response are sent to the app (SEC-77).
///
/// All fields pass, with three exceptions: fields of one hop, fields that would affect the broker's origin, and fields that
/// only the broker may send.
package enum ResponseHeaderRules {
    /// The field names that are never sent to the app.
    ///
    /// Such a field belongs to one hop, to the exchange between upstream and broker, or to the whole origin of the broker
    /// (decision 0016).
    private static let dropped: Set<String> = [
        "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization",
        "proxy-authentication-info", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "set-cookie",
        "set-cookie2", "www-authenticate", "clear-site-data", "strict-transport-security", "public-key-pins",
        "alt-svc", "server", "x-request-id", "authorization", "cookie", "authentication-info", "forwarded",
        // The upstream's value would replace the broker's nonce, which the app needs for its next proof.
        "dpop-nonce",
        // Addresses to which a browser would send reports about the broker's URLs.
        "nel", "report-to", "reporting-endpoints", "expect-ct",
        // Rules for the pages, workers and frames of the broker's origin, and for the contents of later requests to it.
        "permissions-policy", "feature-policy", "document-policy", "require-document-policy", "integrity-policy",
        "origin-trial", "origin-agent-cluster", "service-worker-allowed", "speculation-rules", "supports-loading-mode",
        "accept-ch", "accept-ch-lifetime", "critical-ch", "use-as-dictionary", "set-login", "activate-storage-access",
        "observe-browsing-topics", "timing-allow-origin", "x-permitted-cross-domain-policies",
        "x-dns-prefetch-control",
        // Orders to shared caches that have precedence over `Cache-Control` (RFC 9213).
        "surrogate-control", "edge-control",
    ]
    // `X-Accel-*` and `X-Sendfile` are commands to the web server in front of the broker, which upstreams must not give.
    // `X-Accel-Buffering` concerns the upstream's own answer, so it passes.
    private static let droppedPrefixes = [
        "access-control-", "x-auth-", "coatcheck-", "x-coatcheck-", "x-forwarded-", "x-accel-", "x-sendfile", "sec-",
        "cross-origin-", "attribution-reporting-", "shared-storage-", "ad-auction-",
    ]
    private static let droppedSuffixes = ["-report-only", "cdn-cache-control"]

    private static let source = HTTPField(name: .coatcheckSource, value: "upstream")
    private static let noStore = HTTPField(name: .cacheControl, value: "private, no-store")
    private static let varyByCaller = "Cookie, Authorization, Coatcheck-Pass"

    /// The reason why a response header is refused, such as control bytes, or framing that two programs could understand
    /// differently (SEC-78).
    package enum Fault: Error, Sendable, Equatable { case badName, badValue, ambiguousFraming, badStatus }

    /// The part of a response header that is passed on.
    package struct Head: Sendable {
        package var fields: HTTPFields
        /// The length that the upstream announced.
        package var contentLength: Int?
    }

    /// Returns the fields for the app.
    ///
    /// - Parameters:
    ///   - headers: the fields of the upstream's answer.
    ///   - token: the access token that was sent. A `Location` that repeats it is dropped.
    ///   - places: the mapping of references that apps would resolve at the broker's origin.
    /// - Returns: the header that may be passed on.
    /// - Throws: `Fault` for a header that two programs could read differently.
    static func head(
        from headers: HTTPHeaders, token: String, places: RelayedLocation
    ) throws(Fault) -> Head {
        var options = ConnectionOptions()
        var contentLength: Int?
        var isChunked = false
        var fields = HTTPFields()
        var pending: [(name: HTTPField.Name, value: String)] = []
        pending.reserveCapacity(headers.count)
        for (text, value) in headers {
            guard isClean(value) else { throw .badValue }
            guard let name = HTTPField.Name(text) else { throw .badName }
            switch name.canonicalName {
            case "connection": options.add(value)
            case "content-length":
                guard contentLength == nil, let length = length(value) else { throw .ambiguousFraming }
                contentLength = length
            case "transfer-encoding":
                guard !isChunked, value.lowercased() == "chunked" else { throw .ambiguousFraming }
                isChunked = true
            case "location", "content-location":
                if !repeats(value, token), let place = places.mapped(value) { pending.append((name, place)) }
            case "refresh", "link":
                if !repeats(value, token) { pending.append((name, value)) }
            default:
                if !isDropped(name.canonicalName) || isBufferingWish(name.canonicalName, value) {
                    pending.append((name, value))
                }
            }
        }
        if isChunked, contentLength != nil { throw .ambiguousFraming }
        var hasPolicy = false
        var directives = CacheDirectives()
        fields.reserveCapacity(pending.count + 3)
        for (name, value) in pending where !options.names(name.canonicalName) {
            if name == .cacheControl {
                hasPolicy = true
                directives.read(value)
            }
            fields.append(HTTPField(name: name, value: value))
        }
        if !hasPolicy {
            fields.append(noStore)
        } else if !directives.allowSharedCaches {
            restrictToCaller(&fields, isPrivate: directives.isPrivate)
        }
        fields.append(source)
        return Head(fields: fields, contentLength: contentLength)
    }

    /// Prevents shared caches from giving the answer to another caller: adds `private` to `Cache-Control`, unless it is there,
    /// and the names of the credential fields to `Vary`.
    ///
    /// The upstream's request had an `Authorization` field, which prevents shared caches from storing the answer (RFC 9111
    /// section 3.5). The app's request may have a cookie instead, which has no such effect. The new words come first, in one
    /// joined field. They work even if the upstream's list is malformed, or if a cache reads only the first field.
    private static func restrictToCaller(_ fields: inout HTTPFields, isPrivate: Bool) {
        if !isPrivate {
            fields[.cacheControl] = (["private"] + fields[values: .cacheControl].filter { !$0.isEmpty }).joined(
                separator: ", ")
        }
        fields[.vary] = ([varyByCaller] + fields[values: .vary]).joined(separator: ", ")
    }

    /// Returns the status with its phrase.
    ///
    /// Throws in two cases: the code is outside 200 to 599; or the phrase has forbidden bytes.
    package static func status(_ status: HTTPResponseStatus) throws(Fault) -> HTTPResponse.Status {
        guard (200...599).contains(status.code) else { throw .badStatus }
        guard case .custom(let code, let phrase) = status else {
            return HTTPResponse.Status(code: Int(status.code))
        }
        guard isClean(phrase) else { throw .badValue }
        return HTTPResponse.Status(code: Int(code), reasonPhrase: phrase)
    }

    private static func isBufferingWish(_ name: String, _ value: String) -> Bool {
        name == "x-accel-buffering" && ["no", "yes"].contains(value.lowercased())
    }

    private static func isDropped(_ name: String) -> Bool {
        guard name.utf8.contains(0x5F) else { return isListed(name) }
        // A CGI-style program that gets the answer would read `X_Auth_Subject` as `X-Auth-Subject`.
        return isListed(String(decoding: name.utf8.map { $0 == 0x5F ? 0x2D : $0 }, as: UTF8.self))
    }

    private static func isListed(_ name: String) -> Bool {
        let (first, last) = (name.utf8.first, name.utf8.last)
        // Compare one byte first, because it distinguishes most names from a prefix or suffix.
        return dropped.contains(name)
            || droppedPrefixes.contains { $0.utf8.first == first && name.hasPrefix($0) }
            || droppedSuffixes.contains { $0.utf8.last == last && name.hasSuffix($0) }
    }

    private static func repeats(_ value: String, _ token: String) -> Bool { !token.isEmpty && value.contains(token) }

    private static func length(_ value: String) -> Int? {
        guard !value.isEmpty, value.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int(value)
    }

    private static func isClean(_ value: String) -> Bool {
        func isClean(_ byte: UInt8) -> Bool { (byte >= 0x20 || byte == 0x09) && byte != 0x7F }
        return value.utf8.withContiguousStorageIfAvailable { $0.allSatisfy(isClean) } ?? value.utf8.allSatisfy(isClean)
    }
}

extension HTTPField.Name {
    /// The field that names the source of an answer on a relay path: `broker` or `upstream` (SEC-82).
    package static let coatcheckSource: HTTPField.Name = HTTPField.Name("Coatcheck-Source") ?? .server
}

/// The `Cache-Control` values that decide whether a shared cache may store the answer (RFC 9111 section 5.2).
///
/// Directives are read according to the grammar. A word inside a quoted value is not a directive, and a directive with an
/// unexpected argument is ignored. After a malformed part, the rest of the value is ignored, because only a clear permission
/// counts.
struct CacheDirectives {
    /// Whether the upstream allows a shared cache to store the answer, with `public`, or `s-maxage` with seconds.
    private(set) var allowSharedCaches = false
    /// Whether the whole answer is `private`; `private="Field"` concerns only that field.
    private(set) var isPrivate = false

    /// Reads the directives in one value of the field.
    mutating func read(_ value: String) {
        var rest = value.utf8[...]
        while true {
            // Empty members of the list are skipped.
            rest = rest.drop { $0 == UInt8(ascii: ",") || Self.isSpace($0) }
            guard let directive = Self.next(&rest) else { return }
            switch (directive.name, directive.argument) {
            case ("public", nil): allowSharedCaches = true
            case ("private", nil): isPrivate = true
            case ("s-maxage", let seconds?) where Self.isNumber(seconds): allowSharedCaches = true
            default: break
            }
        }
    }

    /// Returns the next directive; nil at the end and at a malformed directive.
    private static func next(_ rest: inout Substring.UTF8View) -> (name: String, argument: [UInt8]?)? {
        let name = rest.prefix(while: isTokenByte)
        guard !name.isEmpty else { return nil }
        rest = rest[name.endIndex...]
        var argument: [UInt8]?
        if rest.first == UInt8(ascii: "=") {
            rest = rest.dropFirst()
            guard let text = rest.first == UInt8(ascii: "\"") ? quoted(&rest) : token(&rest) else { return nil }
            argument = text
        }
        rest = rest.drop(while: isSpace)
        guard rest.first.map({ $0 == UInt8(ascii: ",") }) ?? true else { return nil }
        return (Substring(name).lowercased(), argument)
    }

    private static func token(_ rest: inout Substring.UTF8View) -> [UInt8]? {
        let text = rest.prefix(while: isTokenByte)
        guard !text.isEmpty else { return nil }
        rest = rest[text.endIndex...]
        return Array(text)
    }

    private static func quoted(_ rest: inout Substring.UTF8View) -> [UInt8]? {
        var text: [UInt8] = []
        var isEscaped = false
        rest = rest.dropFirst()
        while let byte = rest.popFirst() {
            switch byte {
            case _ where isEscaped:
                text.append(byte)
                isEscaped = false
            case UInt8(ascii: "\\"): isEscaped = true
            case UInt8(ascii: "\""): return text
            default: text.append(byte)
            }
        }
        return nil
    }

    private static func isNumber(_ text: [UInt8]) -> Bool {
        !text.isEmpty && text.allSatisfy { (0x30...0x39).contains($0) }
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// Whether the byte is allowed in a token (RFC 9110 section 5.6.2).
    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E...0x60, 0x7C, 0x7E: true
        default: false
        }
    }
}
