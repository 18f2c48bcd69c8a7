import Broker
import BrokerWire
import HTTPTypes
import NIOCore
import Synchronization

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

/// The count of the work in progress on the listeners of this process, for a shutdown that waits for this work to end.
package final class ServerLoad: Sendable {
    private let answering = Atomic<Int>(0)
    private let streaming = Atomic<Int>(0)
    private let draining = Atomic<Bool>(false)

    /// The memory of the request bodies of sessions.
    let bodies = HeldBodies()

    package init() {}

    /// The number of requests being served; a relayed request counts until the last byte of its body.
    package var requests: Int { answering.load(ordering: .relaxed) }

    /// The number of open event streams.
    package var streams: Int { streaming.load(ordering: .relaxed) }

    /// Whether the process is shutting down.
    ///
    /// Answers then ask their clients to use another connection.
    package var isDraining: Bool { draining.load(ordering: .relaxed) }

    /// Begins to ask clients to use other connections, so that few remain when the listeners drain.
    package func drains() { draining.store(true, ordering: .relaxed) }

    func requestBegan() { answering.add(1, ordering: .relaxed) }
    func requestEnded() { answering.subtract(1, ordering: .relaxed) }
    func streamBegan() { streaming.add(1, ordering: .relaxed) }
    func streamEnded() { streaming.subtract(1, ordering: .relaxed) }
}

/// The header fields of every answer (SEC-108).
///
/// Each is created once, because creating a field includes a check and each answer has several.
enum SecurityFields {
    /// The field that requires https from then on; an answer has it only if the listener's rules have `hasStrictTransport`.
    static let strictTransport = HTTPField(name: .strictTransportSecurity, value: "max-age=31536000; includeSubDomains")
    static let contentSecurity = HTTPField(
        name: .contentSecurityPolicy, value: "default-src 'none'; frame-ancestors 'none'")
    /// The policy for relayed answers.
    ///
    /// An upstream's page comes from the broker's origin, and must have no power there. The directives after `default-src`
    /// cover the cases that `default-src` leaves out.
    static let relayedContentSecurity = HTTPField(name: .contentSecurityPolicy, value: relayed + "; sandbox")
    /// The policy for a relayed PDF.
    ///
    /// This policy leaves out `sandbox`, because the PDF viewers of browsers do not work in a sandbox.
    static let relayedPDFSecurity = HTTPField(name: .contentSecurityPolicy, value: relayed)
    private static let relayed = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    static let contentType = HTTPField(name: .xContentTypeOptions, value: "nosniff")
    static let referrer = HTTPField(name: .referrerPolicy, value: "no-referrer")

    /// The fields of every answer.
    static let all = [contentSecurity, contentType, referrer]
}

/// Further fields with constant values.
enum ConstantFields {
    static let noStore = HTTPField(name: .cacheControl, value: "no-store")
    static let json = HTTPField(name: .contentType, value: "application/json")
    static let problem = HTTPField(name: .contentType, value: "application/problem+json")
    /// The field that makes nginx pass the answer on at once.
    ///
    /// Otherwise, nginx buffers some kilobytes.
    static let unbuffered = HTTPField(name: .accelBuffering, value: "no")
    static let eventStream = HTTPField(name: .contentType, value: "text/event-stream")
    static let varyOrigin = HTTPField(name: .vary, value: "Origin")
    static let allowCredentials = HTTPField(name: .accessControlAllowCredentials, value: "true")
    static let exposeHeaders = HTTPField(
        name: .accessControlExposeHeaders,
        value: "X-Request-Id, Retry-After, Coatcheck-Source, Coatcheck-Code, DPoP-Nonce, WWW-Authenticate")
    static let sourceBroker = HTTPField(name: .coatcheckSource, value: "broker")
    static let bearerChallenge = HTTPField(name: .wwwAuthenticate, value: "Bearer realm=\"coatcheck\"")
    static let backendChallenge = HTTPField(name: .wwwAuthenticate, value: "Bearer realm=\"coatcheck-backend\"")
    static let basicChallenge = HTTPField(name: .wwwAuthenticate, value: "Basic realm=\"coatcheck-backend\"")
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
