import Broker
import HTTPTypes

/// What we look at in a request's header fields, collected in one pass.
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
            let name = field.name
            // The canonical name is lower case; a switch over it compares lengths first.
            switch name.canonicalName {
            case "cookie": cookies.append(field.value)
            case "authorization": authorization.append(Self.plain(field.value))
            case "origin": origins.append(Self.plain(field.value))
            case "sec-fetch-site": fetchSites.append(Self.plain(field.value))
            case "content-type": contentTypes.append(Self.plain(field.value))
            case "content-length":
                contentLength = Int(field.value)
                hasBody = hasBody || contentLength != 0
            case "transfer-encoding": hasBody = true
            case "content-encoding": isEncoded = true
            case "user-agent": userAgent = field.value
            case "x-forwarded-for": forwardedFor.append(Self.plain(field.value))
            case "x-forwarded-proto": forwardedProto.append(Self.plain(field.value))
            case "x-coatcheck-session": sessions.append(Self.plain(field.value))
            case "x-coatcheck-backend": backends.append(Self.plain(field.value))
            case "dpop": proofs.append(Self.plain(field.value))
            case "coatcheck-pass": passes.append(Self.plain(field.value))
            case "access-control-request-method": requestMethod = Self.plain(field.value)
            case "sec-purpose", "purpose", "x-purpose", "x-moz":
                isPrefetch = isPrefetch || Self.plain(field.value).lowercased().contains("pre")
            default: break
            }
        }
    }

    /// All fields but cookies are ASCII by their grammars.
    ///
    /// Of anything else it is enough to know that it is there: looking for a character in a thousand combining marks
    /// takes a time that the client must not choose (SEC-106).
    private static func plain(_ value: String) -> String { value.isASCII ? value : "\u{FFFD}" }
}
