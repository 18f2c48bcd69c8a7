import FoundationEssentials

/// One received request.
package struct RecordedRequest: Sendable {
    /// The provider of the path; a request whose path belongs to no provider is not recorded.
    package var provider: String
    /// The endpoint's name (`token`, `refresh`, `userinfo`, …).
    package var endpoint: String
    /// The method.
    package var method: String
    /// The `Host` field.
    package var host: String
    /// The path, unchanged.
    package var path: String
    /// The query, unchanged, starting after the question mark.
    package var query: String
    /// The header fields in order, with unchanged names (`Host` comes first).
    package var headers: [(name: String, value: String)]
    /// The body's first 64 KiB.
    package var body: [UInt8]
    /// The body's whole length in bytes.
    package var bodyLength: Int
    /// Unix time of arrival.
    package var at: Double
    /// The answer's status; 0 before the answer.
    package var status: Int
    /// The thumbprint of the certificate that the connection showed.
    package var certificate: String?

    /// The body as text.
    package var bodyText: String { String(decoding: body, as: UTF8.self) }

    /// The first value of a header field, whose name is compared independent of case.
    package func header(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }

    /// The body's pairs, read as a form.
    package var form: Pairs { Pairs(parsing: bodyText) }

    /// The query's pairs.
    package var queryPairs: Pairs { Pairs(parsing: query) }

    /// The request in the form of the control API.
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
