import Broker
import HTTPTypes
import Hummingbird
import NIOCore

/// Is one request on its way through a route.
struct Call: Sendable {
    let request: HTTPRequest
    /// The request's body as it comes in; read once.
    let stream: RequestBody
    let fields: RequestFields
    /// The target's path, as it stood.
    let path: Substring
    /// What stands after the `?`.
    let query: Substring?
    let requestID: String
    /// The connection it came on; nil in-process.
    let connection: ClientConnection?
    let channel: any Channel
    /// What stands in the path where the template has braces, as it stood.
    var parameters: [Substring] = []
    /// The body of a route that takes one, whole.
    var body: [UInt8] = []

    init(
        request: HTTPRequest, stream: RequestBody, requestID: String, connection: ClientConnection?,
        channel: any Channel
    ) {
        self.request = request
        self.stream = stream
        self.requestID = requestID
        self.connection = connection
        self.channel = channel
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

    /// Returns a path parameter as a configured name; throws `code` when it is none.
    func name<Name: ConfiguredName>(_ index: Int = 0, orElse code: ProblemCode) throws(BrokerProblem) -> Name {
        guard parameters.indices.contains(index), let name = Name(String(parameters[index])) else {
            throw BrokerProblem(code)
        }
        return name
    }

    /// Is whether it is a HEAD request, answered as a GET without its body.
    var isHead: Bool { request.method == .head }
}
