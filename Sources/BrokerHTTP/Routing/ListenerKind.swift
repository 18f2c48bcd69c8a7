/// What a listener is for, which decides the rules that its requests are held to.
package enum ListenerKind: Sendable {
    /// Apps and browsers, and backends where they have no listener of their own.
    case `public`
    /// Backends alone (`server.backend_listen`); the one where a TCP peer can be a backend.
    case backend
    /// Operators (`management.listen`).
    case management
}
