/// Why a request's body ends before its end.
package enum BodyFault: Error, Sendable, Equatable {
    /// It is not well-formed HTTP/1.1.
    case malformed
    /// The client ended the connection, or the request was answered before.
    case incomplete
    /// It came too slowly.
    case timedOut
    /// It has more bytes than its reader takes.
    case tooLarge
    /// The client's address holds as much of our memory as it may.
    case overLimit
}
