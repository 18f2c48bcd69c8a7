import Broker
import BrokerWire

/// Reads a whole request body, bounded in bytes and time (SEC-102, SEC-105, library note 3).
enum BodyReader {
    /// Returns the body.
    ///
    /// The connection closes behind the answer to a body that is too large, too slow or malformed.
    static func collect(_ call: Call, upTo maximum: Int, within deadline: Duration) async throws(BrokerProblem)
        -> [UInt8]
    {
        // What says that it is too large is not asked for: no `100 Continue` goes out (RFC 9110 section 10.1.1).
        if let length = call.fields.contentLength, length > maximum { throw BrokerProblem(.tooLarge) }
        do throws(BodyFault) {
            return try await call.stream.collect(upTo: maximum, within: deadline)
        } catch {
            throw problem(error)
        }
    }

    /// Returns the problem of a body that is not whole.
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
