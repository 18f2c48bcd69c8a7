import HTTPTypes
import Hummingbird
import NIOCore

extension Response {
    /// An answer with a body of text.
    static func text(
        _ body: String, status: Int = 200, type: String = "text/plain; charset=utf-8",
        headers: [(String, String)] = []
    ) -> Response {
        bytes(Array(body.utf8), status: status, type: type, headers: headers)
    }

    /// An answer with a body of bytes.
    static func bytes(
        _ body: [UInt8], status: Int = 200, type: String?, headers: [(String, String)] = []
    ) -> Response {
        var fields = HTTPFields()
        if let type { fields[.contentType] = type }
        for (name, value) in headers { fields.append(name, value) }
        return Response(
            status: .init(code: min(max(status, 100), 999)), headers: fields,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
    }

    /// A JSON answer that caches must not store (RFC 6749 section 5.1).
    static func json(_ value: JSON, status: Int = 200, headers: [(String, String)] = []) -> Response {
        text(
            value.serialized, status: status, type: "application/json",
            headers: [("Cache-Control", "no-store"), ("Pragma", "no-cache")] + headers)
    }

    /// An HTML page, free of scripts.
    static func page(_ title: String, _ body: String, status: Int = 200) -> Response {
        text(
            """
            <!doctype html><html lang="en"><head><meta charset="utf-8"><title>\(title.htmlEscaped)</title></head>
            <body><h1>\(title.htmlEscaped)</h1>\(body)</body></html>
            """, status: status, type: "text/html; charset=utf-8",
            headers: [
                ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
                ("Cache-Control", "no-store"),
            ])
    }

    /// A redirect with status 302.
    static func found(_ location: String, headers: [(String, String)] = []) -> Response {
        bytes([], status: 302, type: nil, headers: [("Location", location), ("Cache-Control", "no-store")] + headers)
    }

    /// An empty answer.
    static func empty(_ status: Int, headers: [(String, String)] = []) -> Response {
        bytes([], status: status, type: nil, headers: headers)
    }
}

extension HTTPFields {
    /// Adds a field; an invalid name is ignored.
    mutating func append(_ name: String, _ value: String) {
        if let name = HTTPField.Name(name) { append(HTTPField(name: name, value: value)) }
    }
}
