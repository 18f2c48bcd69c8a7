import Broker
import BrokerWire
import HTTPTypes
import NIOCore

/// One request on its way through a route.
///
/// The type is a class, because functions pass the call on. Copying a struct would retain and release more than twelve
/// references.
final class Call: Sendable {
    let request: HTTPRequest
    /// Whether this is a HEAD request, which is answered like a GET but with an empty body.
    let isHead: Bool
    /// The request's body as it arrives; it can be read once.
    let stream: RequestBody
    let fields: RequestFields
    /// The path of the request target, unchanged.
    let path: Substring
    /// The query: the text after the `?`.
    let query: Substring?
    let requestID: String
    /// The connection of the request; nil in-process.
    let connection: ClientConnection?
    /// The event loop that serves the request.
    let eventLoop: any EventLoop
    /// The parts of the path that match the template's braces, unchanged.
    let parameters: [Substring]
    /// The whole body, on a route that reads it before its handler.
    let body: [UInt8]

    init(
        request: HTTPRequest, stream: RequestBody, requestID: String, connection: ClientConnection?,
        eventLoop: any EventLoop
    ) {
        self.request = request
        isHead = request.method == .head
        self.stream = stream
        self.requestID = requestID
        self.connection = connection
        self.eventLoop = eventLoop
        parameters = []
        body = []
        fields = RequestFields(request.headerFields)
        let target = request.path ?? "/"
        if let mark = target.utf8.firstIndex(of: UInt8(ascii: "?")) {
            path = target[..<mark]
            query = target[target.utf8.index(after: mark)...]
        } else {
            path = target[...]
            query = nil
        }
    }

    private init(_ call: Call, _ parameters: [Substring], _ body: [UInt8]) {
        request = call.request
        isHead = call.isHead
        stream = call.stream
        fields = call.fields
        path = call.path
        query = call.query
        requestID = call.requestID
        connection = call.connection
        eventLoop = call.eventLoop
        self.parameters = parameters
        self.body = body
    }

    /// Returns the call with the parameters that its route found in the path.
    func with(parameters: [Substring]) -> Call { parameters.isEmpty ? self : Call(self, parameters, body) }

    /// Returns the call with its whole body.
    func with(body: [UInt8]) -> Call { body.isEmpty ? self : Call(self, parameters, body) }

    /// Returns a path parameter as a configured name; throws `code` unless it is a valid name.
    func name<Name: ConfiguredName>(_ index: Int = 0, orElse code: ProblemCode) throws(BrokerProblem) -> Name {
        guard parameters.indices.contains(index), let name = Name(String(parameters[index])) else {
            throw BrokerProblem(code)
        }
        return name
    }
}
