import Broker
import BrokerWire

/// What bodies hold, on routes that say their media type; that it is this type was looked at before the body came.
extension BrokerAPI {
    /// Returns the request's JSON object.
    func json(_ call: Call) throws(BrokerProblem) -> RequestObject {
        try RequestObject(parsing: call.body, maximumBytes: configuration.limits.body)
    }

    /// Returns the request's form.
    func form(_ call: Call) throws(BrokerProblem) -> RequestForm { try RequestForm(parsing: call.body) }
}
