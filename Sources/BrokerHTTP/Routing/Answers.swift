import BrokerWire
import HTTPTypes
import NIOCore

/// Makes responses with their constant fields.
///
/// Every response has the security fields and the request id (SEC-108).
enum Answers {
    /// Returns the fields that begin every answer, with room for a few more.
    static func fields(_ requestID: String, cache: HTTPField = ConstantFields.noStore) -> [HTTPField] {
        var fields: [HTTPField] = []
        fields.reserveCapacity(16)
        fields.append(contentsOf: SecurityFields.all)
        fields.append(cache)
        fields.append(HTTPField(name: .requestID, value: requestID))
        return fields
    }

    /// Returns a JSON answer that caches must not store.
    static func json(
        _ status: HTTPResponse.Status, _ bytes: [UInt8], _ call: Call, adding extra: [HTTPField] = []
    ) -> Answer {
        var fields = fields(call.requestID)
        fields.append(ConstantFields.json)
        fields += extra
        return Answer(status, consume fields, body: .whole(ByteBuffer(bytes: bytes)))
    }

    /// Returns a JSON answer whose body is the same for all requests.
    static func json(_ status: HTTPResponse.Status, shared body: ByteBuffer, _ call: Call) -> Answer {
        var fields = fields(call.requestID)
        fields.append(ConstantFields.json)
        return Answer(status, consume fields, body: .whole(body))
    }

    /// Returns an answer with an empty body.
    static func empty(_ status: HTTPResponse.Status, _ call: Call, adding extra: [HTTPField] = []) -> Answer {
        var fields = fields(call.requestID)
        fields += extra
        return Answer(status, consume fields)
    }

    /// Returns an answer with a file that is the same for all callers.
    static func file(_ file: ByteBuffer, type: HTTPField, _ call: Call) -> Answer {
        var fields = fields(call.requestID, cache: publicCache)
        fields.append(type)
        return Answer(.ok, fields, body: .whole(file))
    }

    private static let publicCache = HTTPField(name: .cacheControl, value: "public, max-age=300")
}

extension Answer {
    /// Counts a streamed answer as work in progress while its body is written.
    ///
    /// A relayed body counts as part of its request, any other body as an event stream.
    mutating func countWriting(in load: ServerLoad, asRequest: Bool) {
        guard case .stream(let length, let write) = body else { return }
        body = .stream(length: length) { writer in
            asRequest ? load.requestBegan() : load.streamBegan()
            defer { asRequest ? load.requestEnded() : load.streamEnded() }
            try await write(writer)
        }
    }
}

// Names that HTTPTypes lacks. `Name(_:)` returns nil only for a text that is not a token. A typing mistake here fails the
// first test that creates an answer.
extension HTTPField.Name {
    private static func known(_ name: StaticString) -> HTTPField.Name {
        HTTPField.Name(name.description) ?? .server
    }

    static let requestID = known("X-Request-Id")
    static let accelBuffering = known("X-Accel-Buffering")
    static let referrerPolicy = known("Referrer-Policy")
    static let coatcheckSource = known("Coatcheck-Source")
    static let coatcheckReason = known("Coatcheck-Reason")
    static let coatcheckCode = known("Coatcheck-Code")
    static let dpopNonce = known("DPoP-Nonce")
    static let coatcheckPresence = known("Coatcheck-Presence")
    static let traceparent = known("traceparent")
    static let authSubject = known("X-Auth-Subject")
    static let authProvider = known("X-Auth-Provider")
    static let authClient = known("X-Auth-Client")
    static let authSession = known("X-Auth-Session")
    static let authName = known("X-Auth-Name")
    static let authEmail = known("X-Auth-Email")
    static let authScope = known("X-Auth-Scope")
    static let authKind = known("X-Auth-Kind")
    static let authParent = known("X-Auth-Parent")
    static let authClass = known("X-Auth-Acr")
    static let authTime = known("X-Auth-Time")
    static let authToken = known("X-Auth-Token")
}
