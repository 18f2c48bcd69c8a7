// Replaces NIOHTTP1 for parsers that only need a list of header fields, so that their target is built without NIO.

package struct HTTPVersion: Equatable {
    package var major: Int
    package var minor: Int

    package init(major: Int, minor: Int) {
        self.major = major
        self.minor = minor
    }
}

package struct HTTPHeaders: Sequence, Sendable {
    private var fields: [(name: String, value: String)]

    package init(_ fields: [(name: String, value: String)] = []) { self.fields = fields }

    package func makeIterator() -> IndexingIterator<[(name: String, value: String)]> { fields.makeIterator() }

    package subscript(canonicalForm name: String) -> [Substring] {
        fields.filter { $0.name.lowercased() == name.lowercased() }
            .flatMap { $0.value.split(separator: ",") }
    }

    package subscript(name: String) -> [String] {
        fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }

    package func first(name: String) -> String? {
        fields.first { $0.name.lowercased() == name.lowercased() }?.value
    }
}

package enum HTTPMethod: Sendable {
    case GET, HEAD, OPTIONS, TRACE, POST
}

package struct HTTPRequestHead {
    package var method: HTTPMethod
    package var version: HTTPVersion
    package var uri: String
    package var headers: HTTPHeaders

    package init(version: HTTPVersion, method: HTTPMethod = .GET, uri: String, headers: HTTPHeaders) {
        self.method = method
        self.version = version
        self.uri = uri
        self.headers = headers
    }
}
