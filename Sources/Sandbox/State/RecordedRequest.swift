import FoundationEssentials

/// One request as it came over the wire.
package struct RecordedRequest: Sendable {
    /// The provider whose path was called; `_` when none.
    package var provider: String
    /// The endpoint's name (`token`, `refresh`, `userinfo`, …).
    package var endpoint: String
    /// The method.
    package var method: String
    /// The `Host` field.
    package var host: String
    /// The path as sent.
    package var path: String
    /// The query as sent, without the question mark.
    package var query: String
    /// Header fields in order, names as sent (`Host` is put first).
    package var headers: [(name: String, value: String)]
    /// The body's first 64 KiB.
    package var body: [UInt8]
    /// The body's whole length in bytes.
    package var bodyLength: Int
    /// Unix time of arrival.
    package var at: Double
    /// The status answered, 0 while none was.
    package var status: Int
    /// The thumbprint of the certificate that its connection showed.
    package var certificate: String?

    /// The body as text.
    package var bodyText: String { String(decoding: body, as: UTF8.self) }

    /// The first value of a header field, its name compared without case.
    package func header(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }

    /// The body's pairs, read as a form.
    package var form: Pairs { Pairs(parsing: bodyText) }

    /// The query's pairs.
    package var queryPairs: Pairs { Pairs(parsing: query) }

    /// The request as the control API shows it.
    package var json: JSON {
        [
            "provider": .string(provider), "endpoint": .string(endpoint), "method": .string(method),
            "host": .string(host), "path": .string(path), "query": .string(query),
            "headers": .array(headers.map { .array([.string($0.name), .string($0.value)]) }),
            "body": .string(bodyText), "body_base64": .string(Data(body).base64EncodedString()),
            "body_length": .int(bodyLength), "at": .raw(String(at)), "status": .int(status),
            "certificate": certificate.map { .string($0) } ?? .null,
        ]
    }
}
