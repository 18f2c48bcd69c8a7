/// A listener of the broker, by the name that logs, metrics and a socket's hand-over give it.
enum ListenerName: String, Sendable, CaseIterable {
    case `public`
    case backend
    case management
}
