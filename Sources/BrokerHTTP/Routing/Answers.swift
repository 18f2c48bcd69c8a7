import Broker
import BrokerWire
import HTTPTypes
import NIOCore
import Synchronization

/// Makes responses with their constant fields.
///
/// The security fields and the request id are in every one (SEC-108).
enum Answers {
    /// Returns the fields that every answer begins with, with room for a few more.
    static func fields(_ requestID: String, cache: HTTPField = ConstantFields.noStore) -> [HTTPField] {
        var fields: [HTTPField] = []
        fields.reserveCapacity(16)
        fields.append(contentsOf: SecurityFields.all)
        fields.append(cache)
        fields.append(HTTPField(name: .requestID, value: requestID))
        return fields
    }

    /// Returns a JSON answer that nobody may store.
    static func json(
        _ status: HTTPResponse.Status, _ bytes: [UInt8], _ call: Call, adding extra: [HTTPField] = []
    ) -> Answer {
        var fields = fields(call.requestID)
        fields.append(ConstantFields.json)
        fields += extra
        return Answer(status, consume fields, body: .whole(ByteBuffer(bytes: bytes)))
    }

    /// Returns a JSON answer whose body is the same for everybody.
    static func json(_ status: HTTPResponse.Status, shared body: ByteBuffer, _ call: Call) -> Answer {
        var fields = fields(call.requestID)
        fields.append(ConstantFields.json)
        return Answer(status, consume fields, body: .whole(body))
    }

    /// Returns an answer without a body.
    static func empty(_ status: HTTPResponse.Status, _ call: Call, adding extra: [HTTPField] = []) -> Answer {
        var fields = fields(call.requestID)
        fields += extra
        return Answer(status, consume fields)
    }

    /// Returns a file that does not depend on who asks.
    static func file(_ file: ByteBuffer, type: HTTPField, _ call: Call) -> Answer {
        var fields = fields(call.requestID, cache: publicCache)
        fields.append(type)
        return Answer(.ok, fields, body: .whole(file))
    }

    private static let publicCache = HTTPField(name: .cacheControl, value: "public, max-age=300")
}

extension Answer {
    /// Counts a streamed body as work under way for as long as it is written: a relayed one as part of its request,
    /// any other as an event stream.
    mutating func countWriting(in load: ServerLoad, asRequest: Bool) {
        guard case .stream(let length, let write) = body else { return }
        body = .stream(length: length) { writer in
            asRequest ? load.requestBegan() : load.streamBegan()
            defer { asRequest ? load.requestEnded() : load.streamEnded() }
            try await write(writer)
        }
    }
}

/// Counts the work under way on the listeners of this process, for whoever waits until it is over.
package final class ServerLoad: Sendable {
    private let answering = Atomic<Int>(0)
    private let streaming = Atomic<Int>(0)
    private let draining = Atomic<Bool>(false)

    /// The memory of the bodies of sessions' requests.
    let bodies = HeldBodies()

    package init() {}

    /// The requests that are being served, relayed bodies to their last byte.
    package var requests: Int { answering.load(ordering: .relaxed) }

    /// The open event streams.
    package var streams: Int { streaming.load(ordering: .relaxed) }

    /// Whether the process is on its way out: answers ask their clients for another connection.
    package var isDraining: Bool { draining.load(ordering: .relaxed) }

    /// Begins to ask clients for other connections, so that few are left when the listeners drain.
    package func drains() { draining.store(true, ordering: .relaxed) }

    func requestBegan() { answering.add(1, ordering: .relaxed) }
    func requestEnded() { answering.subtract(1, ordering: .relaxed) }
    func streamBegan() { streaming.add(1, ordering: .relaxed) }
    func streamEnded() { streaming.subtract(1, ordering: .relaxed) }
}

/// The header fields of every answer (SEC-108), made once: a field that is made is checked, and there are several in each.
enum SecurityFields {
    /// Only where `hasStrictTransport` of the listener's rules says so, and then added to the finished answer.
    static let strictTransport = HTTPField(name: .strictTransportSecurity, value: "max-age=31536000; includeSubDomains")
    static let contentSecurity = HTTPField(
        name: .contentSecurityPolicy, value: "default-src 'none'; frame-ancestors 'none'")
    /// Of a relayed answer: a page of the upstream's is served from our origin, and may do nothing there, whatever the
    /// first directive leaves out.
    static let relayedContentSecurity = HTTPField(name: .contentSecurityPolicy, value: relayed + "; sandbox")
    /// Of a relayed PDF, which browsers show by a program of their own, and not in a sandbox.
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
    /// For nginx, which buffers some kilobytes of an answer by default.
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

// Names that HTTPTypes does not have. `Name(_:)` is optional only for names that are no tokens; these are, and a typing
// mistake would be caught by the first test that makes an answer.
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
