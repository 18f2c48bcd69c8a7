import HTTPTypes
import Hummingbird
import NIOCore

/// One request to an emulated provider.
struct Call: Sendable {
    let state: SandboxState
    let provider: any SandboxProvider
    /// The endpoint's name, as in faults and records.
    var endpoint: String
    let method: HTTPRequest.Method
    /// The path and query, unchanged.
    let path: String
    var query: String
    let headers: HTTPFields
    var body: [UInt8]
    var faults: Faults
    let settings: Settings
    let channel: any Channel
    /// The request whose body is unread, for endpoints that read it as a stream.
    let request: Request
    /// The certificate that the connection showed.
    var certificate: ShownCertificate?

    var baseURL: String { state.baseURL }
    var queryPairs: Pairs { Pairs(parsing: query) }
    var bodyText: String { String(decoding: body, as: UTF8.self) }
    var now: Double { state.now }

    /// The media type of the body in lower case, stripped of parameters.
    var contentType: String {
        let field = headers[.contentType] ?? ""
        return field.prefix { $0 != ";" }.lowercased().trimmingSpaces
    }

    /// The body as a form; nil if the body has another media type.
    var form: Pairs? {
        contentType == "application/x-www-form-urlencoded" ? Pairs(parsing: bodyText) : nil
    }

    /// The body as a JSON object; nil if it is something else.
    var json: JSON? {
        guard contentType == "application/json", let value = try? JSON.parse(body), value.members != nil else {
            return nil
        }
        return value
    }

    /// Whether the caller accepts JSON.
    var acceptsJSON: Bool { (headers[.accept] ?? "").contains("application/json") }

    /// The bearer token of the request.
    var bearer: String? {
        guard let field = headers[.authorization] else { return nil }
        let parts = field.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
        return String(parts[1])
    }

    /// The access token of the request, if it comes with the scheme `DPoP`, which requires a proof (RFC 9449 section 7.1).
    var proven: String? {
        guard let field = headers[.authorization] else { return nil }
        let parts = field.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "dpop" else { return nil }
        return String(parts[1])
    }

    /// The first value of a header field.
    func header(_ name: String) -> String? {
        HTTPField.Name(name).flatMap { headers[$0] }
    }

    /// A cookie's value.
    func cookie(_ name: String) -> String? {
        for field in headers[values: .cookie] {
            for pair in field.split(separator: ";") {
                let halves = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                if halves.count == 2, String(halves[0]).trimmingSpaces == name {
                    return String(halves[1]).trimmingSpaces
                }
            }
        }
        return nil
    }
}

extension String {
    /// The text, trimmed of spaces and tabs at its ends.
    var trimmingSpaces: String {
        var text = Substring(self)
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return String(text)
    }
}
