import Broker
import BrokerWire

/// Reads the whole body of a request, limited in bytes and time (SEC-102, SEC-105, library note 3).
enum BodyReader {
    /// Returns the request's body.
    ///
    /// If the body is too large, too slow or malformed, the connection closes after the answer.
    static func collect(_ call: Call, upTo maximum: Int, within deadline: Duration) async throws(BrokerProblem)
        -> [UInt8]
    {
        // A body that is announced as too large is refused before any `100 Continue` (RFC 9110 section 10.1.1).
        if let length = call.fields.contentLength, length > maximum { throw BrokerProblem(.tooLarge) }
        do throws(BodyFault) {
            return try await call.stream.collect(upTo: maximum, within: deadline)
        } catch {
            throw problem(error)
        }
    }

    /// Returns the problem that answers a body's fault.
    static func problem(_ fault: BodyFault) -> BrokerProblem {
        switch fault {
        case .tooLarge: BrokerProblem(.tooLarge)
        case .timedOut: BrokerProblem(.requestTimeout)
        case .malformed: BrokerProblem(.invalidRequest, detail: "The request's body is not well-formed HTTP/1.1.")
        case .incomplete: BrokerProblem(.invalidRequest, detail: "The request's body did not arrive.")
        case .overLimit: BrokerProblem(.rateLimited, retryAfter: .seconds(5))
        }
    }
}

/// Parses bodies as JSON or as a form.
///
/// The media type of the body is checked before the body arrives.
extension BrokerAPI {
    /// Returns the request's JSON object.
    func json(_ call: Call) throws(BrokerProblem) -> RequestObject {
        try RequestObject(parsing: call.body, maximumBytes: configuration.limits.body)
    }

    /// Returns the request's form, for the fields that its route knows.
    func form(_ call: Call, for names: FormNames) throws(BrokerProblem) -> RequestForm {
        try RequestForm(parsing: call.body, for: names)
    }
}
