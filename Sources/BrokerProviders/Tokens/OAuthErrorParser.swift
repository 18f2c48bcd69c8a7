import Broker

/// Finds the OAuth error in an answer, in every dialect of providers (docs/providers/real-servers.md).
enum OAuthErrorParser {
    /// Returns the error code in an answer's object; nil if the object contains no error.
    ///
    /// `isFailure` is whether the status was 4xx. A `message` or `error_description` alone then counts as an error.
    /// `ignoringError` leaves out the member `error` (see `saysNone`).
    static func code(in object: JSONObject, isFailure: Bool, ignoringError: Bool = false) -> String? {
        switch ignoringError ? nil : object["error"] {
        case .string(let text) where !text.isEmpty: return reduced(text)
        case .object(let error):
            let names = ["type", "code", "error", "status"]
            return names.lazy.compactMap { scalar(error[$0]) }.first.map(reduced) ?? "invalid_request"
        case .bool(true): return "invalid_request"
        // Some APIs number their errors, and 0 means success.
        case .number(let text) where text != "0": return "invalid_request"
        default: break
        }
        if object["ok"]?.bool == false || object["success"]?.bool == false { return "invalid_request" }
        if let errors = object["errors"]?.array, !errors.isEmpty {
            let names = ["errorType", "code", "error", "type"]
            let codes = Set(
                errors.prefix(64).map { error in
                    error.string ?? error.object.flatMap { error in names.lazy.compactMap { scalar(error[$0]) }.first }
                })
            // If the list has different error codes, its meaning is unknown.
            return codes.count == 1 ? codes.first?.map(reduced) ?? "invalid_request" : "invalid_request"
        }
        if object["error_code"] != nil, object["error_message"] != nil { return "invalid_request" }
        guard isFailure, object["message"]?.string != nil || object["error_description"]?.string != nil else {
            return nil
        }
        return "invalid_request"
    }

    /// Returns whether the member `error` in a 2xx answer of an identity endpoint means "no error", for example TikTok's
    /// `{"code": "ok"}`.
    ///
    /// `further` are a preset's own values.
    static func saysNone(_ error: JSONValue, _ further: [String] = []) -> Bool {
        func isNone(_ value: JSONValue?) -> Bool {
            switch value {
            case .null, .bool(false): true
            case .string(let text): ["", "none", "ok"].contains(text) || further.contains { $0.hasBytes(of: text) }
            case .number(let text): text == "0"
            case .bool(true), .array, .object, nil: false
            }
        }
        return isNone(error.object.map { $0["code"] } ?? error)
    }

    /// Returns whether an error code means "try again later", regardless of the status.
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

    /// Reduces a code to RFC 6749 section 5.2's alphabet and at most 64 characters, because the code is logged.
    static func reduced(_ text: String) -> String {
        let bytes = text.utf8.prefix(64).filter { (0x20...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
        return bytes.isEmpty ? "invalid_request" : String(decoding: bytes, as: UTF8.self)
    }
}
