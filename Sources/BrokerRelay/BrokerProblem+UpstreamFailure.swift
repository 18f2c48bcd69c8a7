import Broker
import BrokerWire

extension BrokerProblem {
    /// Names a failure for the app; what there is to say of it beyond that goes to the log.
    init(_ failure: UpstreamFailure) {
        switch failure {
        case .call(.timedOut): self.init(.upstreamTimeout, privateDetail: "no progress and no head")
        case .call(.abandoned): self.init(.upstreamError, privateDetail: "the caller went away")
        case .call(let failure): self.init(.upstreamError, privateDetail: "the connection: \(failure)")
        case .connection(let error): self.init(.upstreamError, privateDetail: error)
        case .connectionTimedOut: self.init(.upstreamTimeout, privateDetail: "no connection in time")
        case .refusedAddress:
            self.init(.upstreamError, privateDetail: "the upstream's address is not public")
        case .requestTooLong: self.init(.tooLarge)
        case .requestTooShort: self.init(.invalidRequest, detail: "The request's body broke off.")
        case .request(let problem as BrokerProblem): self = problem
        case .request(let error):
            // The error itself is never printed: it may hold what was sent, and so the token.
            self.init(.upstreamError, privateDetail: String(describing: type(of: error)))
        case .shutDown: self.init(.upstreamError, privateDetail: "the relay is shut down")
        }
    }
}
