/// The text of requests and answers in the conversation.
enum MessageText {
    private static let hidden: Set<String> = [
        "host", "user-agent", "connection", "accept-encoding", "content-length", "date", "server", "te",
        "transfer-encoding", "playground-caller", "pragma", "x-content-type-options", "referrer-policy",
        "cross-origin-resource-policy", "content-security-policy", "vary",
    ]
    private static let reasons = [
        200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 302: "Found", 303: "See Other",
        400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 409: "Conflict", 410: "Gone",
        429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable",
        504: "Gateway Timeout",
    ]

    /// Returns the text above a request's arrow, with method and path.
    ///
    /// If the path is too long, its middle is left out.
    static func title(_ method: String, _ target: String) -> String {
        let path = Shortened.text(String(target.prefix { $0 != "?" }))
        let segments = path.split(separator: "/")
        let head = segments.prefix(segments.first == "v1" ? 2 : 1)
        for kept in [2, 1] where method.count + path.count > 34 && segments.count > head.count + kept {
            let short = "/" + head.joined(separator: "/") + "/…/" + segments.suffix(kept).joined(separator: "/")
            if method.count + short.count <= 34 || kept == 1 { return method + " " + short }
        }
        return method + " " + path
    }

    /// Returns a status with its phrase.
    static func status(_ status: Int) -> String { "\(status)" + (reasons[status].map { " " + $0 } ?? "") }

    /// Returns the text of a request, with shortened secrets.
    static func request(_ method: String, _ target: String, headers: [(String, String)], body: [UInt8]) -> String {
        lines(method + " " + Shortened.target(target), headers, body)
    }

    /// Returns the text of an answer, with shortened secrets.
    static func answer(_ status: Int, headers: [(String, String)], body: [UInt8]) -> String {
        lines(Self.status(status), headers, body)
    }

    private static func lines(_ first: String, _ headers: [(String, String)], _ body: [UInt8]) -> String {
        var out = first
        for (name, value) in headers where !hidden.contains(name.lowercased()) {
            out += "\n" + name + ": " + Shortened.field(name, value)
            if ["dpop", "coatcheck-presence"].contains(name.lowercased()) {
                for part in Shortened.proof(value) { out += "\n  " + part }
            }
        }
        let type = headers.first { $0.0.lowercased() == "content-type" }?.1 ?? ""
        let text = Shortened.body(body, type: type)
        return text.isEmpty ? out : out + "\n\n" + text
    }
}
