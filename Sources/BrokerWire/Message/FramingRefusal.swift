/// The reason why a client's bytes are refused before they become a request.
package enum FramingRefusal: Sendable, Equatable {
    /// The bytes are not HTTP/1.1, or two programs could read them differently.
    case malformed
    /// The head is too large.
    case tooLarge
    /// The unanswered bytes from the client's address, or from one of its networks, have reached their limit.
    case overLimit
}
