import HTTPTypes
import NIOCore
import NIOHTTP1

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

extension ByteBuffer {
    /// Writes a field line (RFC 9112 section 5); name and value are checked where they are made.
    mutating func writeField(_ name: String, _ value: String) {
        writeString(name)
        writeStaticString(": ")
        writeString(value)
        writeStaticString("\r\n")
    }
}
