/// The reason why a request's body ended early.
package enum BodyFault: Error, Sendable, Equatable {
    /// The bytes are not well-formed HTTP/1.1.
    case malformed
    /// The client closed the connection, or the request was answered before the body was complete.
    case incomplete
    /// The body came too slowly.
    case timedOut
    /// The body is larger than its reader accepts.
    case tooLarge
    /// The client's address holds as much of the broker's memory as allowed.
    case overLimit
}
