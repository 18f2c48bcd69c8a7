import Broker
import BrokerWire

/// The failure of a relayed call, and whether the upstream may have acted on the call.
struct RelayFailure: Error {
    let problem: BrokerProblem
    /// True in two cases: the call provably never reached its upstream; or its upstream refused it.
    ///
    /// The presence proof of such a call is released.
    let isUnsent: Bool

    /// Creates the failure of a call that the upstream may have seen.
    init(_ problem: BrokerProblem) {
        self.init(problem, isUnsent: false)
    }

    /// Creates the failure of a call that had no effect at the upstream.
    static func unsent(_ problem: BrokerProblem) -> RelayFailure { RelayFailure(problem, isUnsent: true) }

    private init(_ problem: BrokerProblem, isUnsent: Bool) {
        self.problem = problem
        self.isUnsent = isUnsent
    }

    /// This failure with `isUnsent` false, because the upstream may have seen the call.
    var sent: RelayFailure { RelayFailure(problem) }

    /// Converts the connection's failure into a problem for the app; the details go to the log only.
    init(_ failure: UpstreamFailure) {
        let problem =
            switch failure {
            case .call(.timedOut): BrokerProblem(.upstreamTimeout, privateDetail: "no progress and no head")
            case .call(.abandoned), .abandoned: BrokerProblem(.upstreamError, privateDetail: "the caller went away")
            case .call(let failure): BrokerProblem(.upstreamError, privateDetail: "the connection: \(failure)")
            case .connection(let error): BrokerProblem(.upstreamError, privateDetail: error)
            case .connectionTimedOut: BrokerProblem(.upstreamTimeout, privateDetail: "no connection in time")
            case .refusedAddress:
                BrokerProblem(
                    .upstreamError, privateDetail: "the upstream's address is not one that it may have")
            case .requestTooLong: BrokerProblem(.tooLarge)
            case .requestTooShort: BrokerProblem(.invalidRequest, detail: "The request's body broke off.")
            case .request(let problem as BrokerProblem): problem
            case .request(let error):
                // The error itself is never printed, because it may contain the request and thus the token.
                BrokerProblem(.upstreamError, privateDetail: String(describing: type(of: error)))
            case .shutDown: BrokerProblem(.upstreamError, privateDetail: "the relay is shut down")
            }
        self.init(problem, isUnsent: failure.isBeforeSending)
    }
}
