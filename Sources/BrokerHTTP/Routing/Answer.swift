import HTTPTypes
import Hummingbird
import NIOCore

/// An answer before it is written.
///
/// Its fields are a plain array: they are made once, in order, and read once.
struct Answer: Sendable {
    /// An answer's body.
    enum Body: Sendable {
        case none
        /// Whole: it leaves together with the head.
        case whole(ByteBuffer)
        /// Written piece by piece, to its end; `length` where it is known.
        case stream(length: Int?, @concurrent @Sendable (inout any ResponseBodyWriter) async throws -> Void)

        /// The length, where it is known.
        var length: Int? {
            switch self {
            case .none: 0
            case .whole(let buffer): buffer.readableBytes
            case .stream(let length, _): length
            }
        }
    }

    let status: HTTPResponse.Status
    var fields: [HTTPField]
    private(set) var body: Body

    /// Creates an answer; the body's length, where it is known, goes among the fields unless they say it already.
    init(_ status: HTTPResponse.Status, _ fields: [HTTPField], body: Body = .none) {
        self.status = status
        self.fields = fields
        self.body = body
        if let length = body.length, !fields.contains(where: { $0.name == .contentLength }) {
            self.fields.append(HTTPField(name: .contentLength, value: String(length)))
        }
    }

    /// Leaves the body out and what is said of it in: the answer to HEAD.
    mutating func leaveBodyOut() { body = .none }

    /// Counts a streamed body as work under way for as long as it is written: a relayed one as part of its request,
    /// any other as an event stream.
    mutating func countWriting(in load: ServerLoad, asRequest: Bool) {
        guard case .stream(let length, let write) = body else { return }
        body = .stream(length: length) { writer in
            asRequest ? load.requestBegan() : load.streamBegan()
            defer { asRequest ? load.requestEnded() : load.streamEnded() }
            try await write(&writer)
        }
    }

    /// The same in the server library's terms.
    var response: Response {
        let body: ResponseBody =
            switch body {
            case .none: ResponseBody()
            case .whole(let buffer): ResponseBody(byteBuffer: buffer)
            case .stream(let length, let write): ResponseBody(contentLength: length, write)
            }
        return Response(status: status, headers: HTTPFields(fields), body: body)
    }
}
