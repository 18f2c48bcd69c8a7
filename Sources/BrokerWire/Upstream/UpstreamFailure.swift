/// Why a call to an upstream has no answer, or no whole one.
package enum UpstreamFailure: Error, Sendable {
    /// The connection that it was on.
    case call(UpstreamConnection.Failure)
    /// No connection could be made; the error's type is all that is told of it, because it may hold what was sent.
    case connection(String)
    /// No connection could be made in time.
    case connectionTimedOut
    /// The upstream's address is not one that is called.
    case refusedAddress
    /// The request's body is longer than it said, or than it may be.
    case requestTooLong
    /// The request's body is shorter than it said.
    case requestTooShort
    /// The request's body could not be read.
    case request(any Error)
    /// The client was shut down.
    case shutDown
}
