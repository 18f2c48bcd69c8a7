import Broker

/// Finds the OAuth error in an answer, in every dialect that providers speak (docs/providers/real-servers.md).
enum OAuthErrorParser {
    /// Returns the error code of an answer's object, or nil when the object tells of none.
    ///
    /// `isFailure` is whether the status was 4xx: then a bare `message` is an error too.
    static func code(in object: JSONObject, isFailure: Bool) -> String? {
        switch object["error"] {
        case .string(let text) where !text.isEmpty: return reduced(text)
        case .object(let error):
            let names = ["type", "code", "error", "status"]
            return names.lazy.compactMap { scalar(error[$0]) }.first.map(reduced) ?? "invalid_request"
        case .bool(true): return "invalid_request"
        // Some APIs number their errors; 0 is none.
        case .number(let text) where text != "0": return "invalid_request"
        default: break
        }
        if object["ok"]?.bool == false || object["success"]?.bool == false { return "invalid_request" }
        if let first = object["errors"]?.array?.first {
            let names = ["errorType", "code", "error", "type"]
            let code =
                first.string ?? first.object.flatMap { error in names.lazy.compactMap { scalar(error[$0]) }.first }
            return code.map(reduced) ?? "invalid_request"
        }
        if object["error_code"] != nil, object["error_message"] != nil { return "invalid_request" }
        guard isFailure, object["message"]?.string != nil || object["error_description"]?.string != nil else {
            return nil
        }
        return "invalid_request"
    }

    /// Codes by which a provider says "later", whatever its status.
    static func isTransient(_ code: String) -> Bool {
        ["temporarily_unavailable", "service_unavailable", "ratelimited", "rate_limited", "slow_down"].contains(code)
    }

    private static func scalar(_ value: JSONValue?) -> String? {
        switch value {
        case .string(let text) where !text.isEmpty: text
        case .number(let text): text
        default: nil
        }
    }

    /// RFC 6749 section 5.2's alphabet, 64 characters at most: it goes into logs.
    static func reduced(_ text: String) -> String {
        let bytes = text.utf8.prefix(64).filter { (0x20...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
        return bytes.isEmpty ? "invalid_request" : String(decoding: bytes, as: UTF8.self)
    }
}
