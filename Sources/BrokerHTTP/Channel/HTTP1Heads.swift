import HTTPTypes
import Hummingbird
import NIOHTTP1

extension HTTPRequestHead {
    /// Whether a body follows (RFC 9112 section 6.3).
    var announcesBody: Bool {
        headers.contains { name, value in
            switch name.utf8.count {
            case 14: name.isASCIIEqual(to: "content-length") && value != "0"
            case 17: name.isASCIIEqual(to: "transfer-encoding")
            default: false
            }
        }
    }
}

extension HTTPRequest {
    /// Creates an HTTP/1 head in the terms of all versions; nil for a method that is no token.
    ///
    /// The path stays as it stood.
    init?(_ head: HTTPRequestHead) {
        guard let method = HTTPRequest.Method(rawValue: head.method.rawValue) else { return nil }
        var authority: String?
        var fields = HTTPFields()
        fields.reserveCapacity(head.headers.count)
        for (name, value) in head.headers {
            if authority == nil, name.isASCIIEqual(to: "host") {
                authority = value
            } else if let name = HTTPField.Name(name) {
                fields.append(HTTPField(name: name, value: value))
            }
        }
        self.init(method: method, scheme: "http", authority: authority, path: head.uri, headerFields: fields)
    }
}

extension HTTPHeaders {
    /// Creates fields as HTTP/1 writes them.
    init(_ fields: some Collection<HTTPField>) {
        self.init(fields.map { ($0.name.rawName, $0.value) })
    }
}

extension HTTPResponseHead {
    /// Creates an answer's head as HTTP/1 writes it.
    init(_ answer: Answer) {
        self.init(
            version: .http1_1,
            status: HTTPResponseStatus(statusCode: answer.status.code, reasonPhrase: answer.status.reasonPhrase),
            headers: HTTPHeaders(answer.fields))
    }
}
