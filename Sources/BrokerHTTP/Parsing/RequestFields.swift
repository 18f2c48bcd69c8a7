import Broker
import BrokerWire
import HTTPTypes

/// The header fields of a request that the broker reads, collected in one pass.
struct RequestFields: Sendable {
    var cookies: [String] = []
    var authorization: [String] = []
    var origins: [String] = []
    var fetchSites: [String] = []
    var contentTypes: [String] = []
    var forwardedFor: [String] = []
    var forwardedProto: [String] = []
    var sessions: [String] = []
    var backends: [String] = []
    var proofs: [String] = []
    var passes: [String] = []
    var userAgent: String?
    var requestMethod: String?
    var hasBody = false
    /// The announced length of the body.
    var contentLength: Int?
    var isEncoded = false
    var isPrefetch = false

    init(_ fields: HTTPFields) {
        for field in fields {
            // `canonicalName` is in lower case. Comparing its length first saves most string comparisons.
            let name = field.name.canonicalName
            switch name.utf8.count {
            case 6 where name == "cookie": cookies.append(field.value)
            case 13 where name == "authorization": authorization.append(Self.plain(field.value))
            case 6 where name == "origin": origins.append(Self.plain(field.value))
            case 14 where name == "sec-fetch-site": fetchSites.append(Self.plain(field.value))
            // A value outside ASCII is kept here, because `MediaType` compares only the bytes before the `;`.
            case 12 where name == "content-type": contentTypes.append(field.value)
            case 14 where name == "content-length":
                contentLength = Int(field.value)
                if contentLength != 0 { hasBody = true }
            case 17 where name == "transfer-encoding": hasBody = true
            case 16 where name == "content-encoding": isEncoded = true
            case 10 where name == "user-agent": userAgent = field.value
            case 15 where name == "x-forwarded-for": forwardedFor.append(Self.plain(field.value))
            case 17 where name == "x-forwarded-proto": forwardedProto.append(Self.plain(field.value))
            case 19 where name == "x-coatcheck-session": sessions.append(Self.plain(field.value))
            case 19 where name == "x-coatcheck-backend": backends.append(Self.plain(field.value))
            case 4 where name == "dpop": proofs.append(Self.plain(field.value))
            case 14 where name == "coatcheck-pass": passes.append(Self.plain(field.value))
            case 29 where name == "access-control-request-method": requestMethod = Self.plain(field.value)
            case 11 where name == "sec-purpose", 7 where name == "purpose", 9 where name == "x-purpose",
                5 where name == "x-moz":
                if Self.plain(field.value).lowercased().contains("pre") { isPrefetch = true }
            default: break
            }
        }
    }

    /// Returns the value, or a placeholder if it is not ASCII; the grammars of all fields except cookies allow only ASCII.
    ///
    /// The placeholder counts as a present but invalid value. The value itself is dropped, because a client could slow down
    /// text searches with a thousand combining marks (SEC-106).
    private static func plain(_ value: String) -> String { value.isASCII ? value : "\u{FFFD}" }
}

extension MediaType {
    /// The media type that a route requires; nil if the route reads no body.
    init?(_ traits: Route.Traits) {
        if traits.contains(.json) {
            self = .json
        } else if traits.contains(.form) {
            self = .form
        } else {
            return nil
        }
    }

    /// Throws `unsupported_media_type` if the media type is missing or wrong, or if the body has a content coding.
    func check(_ fields: RequestFields) throws(BrokerProblem) {
        guard let fault = fault(in: fields) else { return }
        throw BrokerProblem(.unsupportedMediaType, detail: "The body has to be \(rawValue).", privateDetail: fault)
    }

    /// Returns the fault in a request's media type, for the log; nil if it is right.
    func fault(in fields: RequestFields) -> String? {
        guard fields.contentTypes.count == 1, let value = fields.contentTypes.first else {
            return fields.contentTypes.isEmpty ? "no Content-Type" : "\(fields.contentTypes.count) Content-Type fields"
        }
        if fields.isEncoded { return "the body has a Content-Encoding" }
        return matches(value) ? nil : "the Content-Type is `\(Self.logged(value))`"
    }
}
