import HTTPTypes
import NIOHTTP1

extension HTTPRequest {
    /// Creates a version-independent request from an HTTP/1 head; nil if the method is not a token.
    ///
    /// The path is taken over unchanged.
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
