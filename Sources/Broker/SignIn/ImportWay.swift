/// The way of an app's present session into the broker.
package enum ImportWay: String, Sendable, CaseIterable {
    /// The app posts its tokens (`import_tokens`).
    case tokens
    /// The app posts the token of its session at the old system (`move_in`).
    case legacy
    /// The request has the old system's session cookie (`move_in: {cookie}`).
    case cookie
}
