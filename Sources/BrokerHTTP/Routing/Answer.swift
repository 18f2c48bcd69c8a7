import HTTPTypes
import Hummingbird

/// Is an answer before it is written. Its fields are a plain array: they are made once, in order, and read once.
struct Answer: Sendable {
    let status: HTTPResponse.Status
    var fields: [HTTPField]
    private(set) var body: ResponseBody

    /// Creates an answer; the body's length, where it is known, goes among the fields unless they say it already.
    init(_ status: HTTPResponse.Status, _ fields: [HTTPField], body: ResponseBody = ResponseBody()) {
        self.status = status
        self.fields = fields
        self.body = body
        if let length = body.contentLength, !fields.contains(where: { $0.name == .contentLength }) {
            self.fields.append(HTTPField(name: .contentLength, value: String(length)))
        }
    }

    /// Leaves the body out and what is said of it in: the answer to HEAD.
    mutating func leaveBodyOut() { body = ResponseBody() }
}
