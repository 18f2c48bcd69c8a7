import Broker
import BrokerWire

extension BrokerAPI {
    /// Returns the request's JSON object; throws `unsupported_media_type` for any other content (SEC-45).
    func json(_ call: Call) throws(BrokerProblem) -> RequestObject {
        guard call.fields.contentTypes.count == 1, !call.fields.isEncoded,
            Self.isMedia("application/json", call.fields.contentTypes.first ?? "")
        else { throw BrokerProblem(.unsupportedMediaType, detail: "The body has to be application/json.") }
        return try RequestObject(parsing: call.body, maximumBytes: configuration.limits.body)
    }

    /// Returns the request's form; throws `unsupported_media_type` for any other content.
    func form(_ call: Call) throws(BrokerProblem) -> RequestForm {
        guard call.fields.contentTypes.count == 1, !call.fields.isEncoded,
            Self.isMedia("application/x-www-form-urlencoded", call.fields.contentTypes.first ?? "")
        else {
            throw BrokerProblem(.unsupportedMediaType, detail: "The body has to be application/x-www-form-urlencoded.")
        }
        return try RequestForm(parsing: call.body)
    }

    /// Returns whether a `Content-Type` is this media type, alone or with `charset=utf-8`.
    static func isMedia(_ type: String, _ value: String) -> Bool {
        let parts = value.split(separator: ";", omittingEmptySubsequences: false).map { part in
            part.drop { $0 == " " || $0 == "\t" }
        }
        guard let first = parts.first, parts.count <= 2 else { return false }
        guard trimmed(first).isASCIIEqual(to: type) else { return false }
        guard let parameter = parts.dropFirst().first else { return true }
        let text = trimmed(parameter)
        return text.isASCIIEqual(to: "charset=utf-8") || text.isASCIIEqual(to: "charset=\"utf-8\"")
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text
        while text.last == " " || text.last == "\t" { text = text.dropLast() }
        return text
    }
}
