/// The reason why a call to an upstream has no answer, or an incomplete one.
package enum UpstreamFailure: Error, Sendable {
    /// The connection of the call failed.
    case call(UpstreamConnection.Failure)
    /// The connection could not be made.
    ///
    /// The value is the error's type only, because the error's text may contain data of the request.
    case connection(String)
    /// The connection was not made in time.
    case connectionTimedOut
    /// The address policy forbids calls to the upstream's address.
    case refusedAddress
    /// The request's body is longer than announced or allowed.
    case requestTooLong
    /// The request's body is shorter than announced.
    case requestTooShort
    /// The request's body could not be read.
    case request(any Error)
    /// The caller left before the call had a connection.
    case abandoned
    /// The client was shut down.
    case shutDown

    /// Whether the upstream has received no byte of the request.
    package var isBeforeSending: Bool {
        switch self {
        case .connection, .connectionTimedOut, .refusedAddress, .abandoned, .shutDown: true
        case .call, .requestTooLong, .requestTooShort, .request: false
        }
    }

    /// The failure to report instead of this one if the request was already sent once before.
    ///
    /// The upstream may have seen the first sending, so `isBeforeSending` is false for the result.
    var afterSending: UpstreamFailure {
        switch self {
        case .connectionTimedOut: .call(.timedOut)
        case .abandoned: .call(.abandoned)
        case .connection, .refusedAddress, .shutDown: .call(.broken)
        default: self
        }
    }
}
