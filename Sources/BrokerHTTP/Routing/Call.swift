import Broker
import BrokerWire
import HTTPTypes
import NIOCore

/// One request on its way through a route.
///
/// A class, because it is handed from function to function and holds a good dozen of references, each of which a copy
/// would count.
final class Call: Sendable {
    let request: HTTPRequest
    /// The request's body as it comes in; read once.
    let stream: RequestBody
    let fields: RequestFields
    /// The target's path, as it stood.
    let path: Substring
    /// The query: the text after the `?`.
    let query: Substring?
    let requestID: String
    /// The connection it came on; nil in-process.
    let connection: ClientConnection?
    /// The event loop that serves it.
    let eventLoop: any EventLoop
    /// The parts of the path where the template has braces, as they stood.
    let parameters: [Substring]
    /// The body of a route that takes one, whole.
    let body: [UInt8]

    init(
        request: HTTPRequest, stream: RequestBody, requestID: String, connection: ClientConnection?,
        eventLoop: any EventLoop
    ) {
        self.request = request
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

    /// Returns the call with what its route found in its path.
    func with(parameters: [Substring]) -> Call { parameters.isEmpty ? self : Call(self, parameters, body) }

    /// Returns the call with its whole body.
    func with(body: [UInt8]) -> Call { body.isEmpty ? self : Call(self, parameters, body) }

    /// Returns a path parameter as a configured name; throws `code` when it is none.
    func name<Name: ConfiguredName>(_ index: Int = 0, orElse code: ProblemCode) throws(BrokerProblem) -> Name {
        guard parameters.indices.contains(index), let name = Name(String(parameters[index])) else {
            throw BrokerProblem(code)
        }
        return name
    }

    /// Whether it is a HEAD request, answered as a GET without its body.
    var isHead: Bool { request.method == .head }
}
