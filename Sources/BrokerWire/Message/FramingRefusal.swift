/// The reason why a client's bytes are refused before they become a request.
package enum FramingRefusal: Sendable, Equatable {
    /// The bytes are not HTTP/1.1, or two programs could read them differently.
    case malformed
    /// The head is too large.
    case tooLarge
    /// The client's address already holds as much of the broker's memory as it may.
    case overLimit
}
