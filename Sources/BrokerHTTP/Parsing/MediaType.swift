import Broker
import BrokerWire

/// A media type that a route takes, and no other (SEC-45).
enum MediaType: String {
    case json = "application/json"
    case form = "application/x-www-form-urlencoded"

    /// The one of a route; nil where its body is not looked at.
    init?(_ traits: Route.Traits) {
        if traits.contains(.json) {
            self = .json
        } else if traits.contains(.form) {
            self = .form
        } else {
            return nil
        }
    }

    /// Throws `unsupported_media_type` for a request whose body is of any other type, encoded, or not there.
    func check(_ fields: RequestFields) throws(BrokerProblem) {
        guard fields.contentTypes.count == 1, !fields.isEncoded, matches(fields.contentTypes.first ?? "") else {
            throw BrokerProblem(.unsupportedMediaType, detail: "The body has to be \(rawValue).")
        }
    }

    /// Returns whether a `Content-Type` is this media type, alone or with `charset=utf-8`.
    func matches(_ value: String) -> Bool {
        let parts = value.split(separator: ";", omittingEmptySubsequences: false).map { part in
            part.drop { $0 == " " || $0 == "\t" }
        }
        guard let first = parts.first, parts.count <= 2 else { return false }
        guard Self.trimmed(first).isASCIIEqual(to: rawValue) else { return false }
        guard let parameter = parts.dropFirst().first else { return true }
        let text = Self.trimmed(parameter)
        return text.isASCIIEqual(to: "charset=utf-8") || text.isASCIIEqual(to: "charset=\"utf-8\"")
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text
        while text.last == " " || text.last == "\t" { text = text.dropLast() }
        return text
    }
}
