/// The name of a listener, as it is in logs, in metrics and in the names of passed sockets.
///
/// The listener decides the rules for its requests.
package enum ListenerName: String, Sendable, CaseIterable {
    /// The listener for apps and browsers, and for backends if they have no listener of their own.
    case `public`
    /// The listener for backends only (`server.backend_listen`).
    ///
    /// Only on this listener can a TCP peer's address identify a backend.
    case backend
    /// The listener for operators (`management.listen`).
    case management
}
