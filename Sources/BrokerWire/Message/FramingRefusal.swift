/// Why what a client sent is not answered as a request.
package enum FramingRefusal: Sendable, Equatable {
    /// It is not HTTP/1.1, or two readers could read it differently.
    case malformed
    /// Its head is larger than it may be.
    case tooLarge
    /// Its address holds as much of our memory as it may.
    case overLimit
}
