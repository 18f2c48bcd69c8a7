package import HTTPTypes
package import NIOHTTP1

/// Which of an upstream's response fields go to the app (DESIGN section 3.2): everything but what belongs to one
/// hop, what would act for our origin, and what only the broker says (SEC-77).
package enum ResponseHeaderRules {
    private static let dropped: Set<String> = [
        "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization",
        "proxy-authentication-info", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "set-cookie",
        "set-cookie2", "www-authenticate", "clear-site-data", "strict-transport-security", "public-key-pins",
        "public-key-pins-report-only", "alt-svc", "server", "x-request-id", "authorization", "cookie",
    ]
    // `X-Accel-*` and `X-Sendfile` are commands to the web server in front of the broker: an upstream gives it none.
    private static let droppedPrefixes = ["access-control-", "x-auth-", "coatcheck-", "x-accel-", "x-sendfile"]

    private static let source = HTTPField(name: .coatcheckSource, value: "upstream")
    private static let noStore = HTTPField(name: .cacheControl, value: "private, no-store")

    /// A response head that is not passed on: control bytes, or framing two readers could see differently (SEC-78).
    package enum Fault: Error, Sendable, Equatable { case badName, badValue, ambiguousFraming, badStatus }

    /// What of a head goes on.
    package struct Head: Sendable {
        package var fields: HTTPFields
        /// The length the upstream announced.
        package var contentLength: Int?
    }

    /// Returns the fields for the app.
    ///
    /// - Parameters:
    ///   - headers: the upstream's.
    ///   - token: the access token that was sent: a `Location` that repeats it is dropped.
    /// - Returns: what may go on.
    /// - Throws: `Fault` for a head that two readers could read differently.
    package static func head(from headers: HTTPHeaders, token: String) throws(Fault) -> Head {
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
            case "location", "content-location", "refresh", "link":
                if token.isEmpty || !value.contains(token) { pending.append((name, value)) }
            default:
                if !isDropped(name.canonicalName) { pending.append((name, value)) }
            }
        }
        if isChunked, contentLength != nil { throw .ambiguousFraming }
        var hasPolicy = false
        fields.reserveCapacity(pending.count + 2)
        for (name, value) in pending where !options.names(name.canonicalName) {
            if name == .cacheControl { hasPolicy = true }
            fields.append(HTTPField(name: name, value: value))
        }
        if !hasPolicy { fields.append(noStore) }
        fields.append(source)
        return Head(fields: fields, contentLength: contentLength)
    }

    /// Returns the status with its phrase, if it is a final one that HTTP knows and the phrase is clean.
    package static func status(_ status: HTTPResponseStatus) throws(Fault) -> HTTPResponse.Status {
        guard (200...599).contains(status.code) else { throw .badStatus }
        guard case .custom(let code, let phrase) = status else {
            return HTTPResponse.Status(code: Int(status.code))
        }
        guard isClean(phrase) else { throw .badValue }
        return HTTPResponse.Status(code: Int(code), reasonPhrase: phrase)
    }

    private static func isDropped(_ name: String) -> Bool {
        if dropped.contains(name) { return true }
        guard name.utf8.contains(0x5F) else { return droppedPrefixes.contains(where: name.hasPrefix) }
        // `X_Auth_Subject` is `X-Auth-Subject` to a CGI-style reader behind us.
        let dashed = String(decoding: name.utf8.map { $0 == 0x5F ? 0x2D : $0 }, as: UTF8.self)
        return dropped.contains(dashed) || droppedPrefixes.contains(where: dashed.hasPrefix)
    }

    private static func length(_ value: String) -> Int? {
        guard !value.isEmpty, value.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int(value)
    }

    private static func isClean(_ value: String) -> Bool {
        for byte in value.utf8 where (byte < 0x20 && byte != 0x09) || byte == 0x7F { return false }
        return true
    }
}

extension HTTPField.Name {
    /// Says who made an answer on a relay path: `broker` or `upstream` (SEC-82).
    package static let coatcheckSource: HTTPField.Name = HTTPField.Name("Coatcheck-Source") ?? .server
}
