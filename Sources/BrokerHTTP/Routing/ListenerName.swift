/// A listener of the broker, by the name that logs, metrics and a socket's hand-over give it; what it is for decides the
/// rules that its requests are held to.
package enum ListenerName: String, Sendable, CaseIterable {
    /// Apps and browsers, and backends where they have no listener of their own.
    case `public`
    /// Backends alone (`server.backend_listen`); the one where a TCP peer can be a backend.
    case backend
    /// Operators (`management.listen`).
    case management
}
