/// The reason why a request's body ended early.
package enum BodyFault: Error, Sendable, Equatable {
    /// The bytes are not well-formed HTTP/1.1.
    case malformed
    /// The body ended early, in two cases: the client closed the connection; or the request was answered before its body had
    /// arrived completely.
    case incomplete
    /// The body came too slowly.
    case timedOut
    /// The body is longer than its reader accepts.
    case tooLarge
    /// The unanswered bytes from the client's address, or from one of its networks, have reached their limit.
    case overLimit
}
