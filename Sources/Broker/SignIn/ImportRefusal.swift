/// The reason why a client refuses imports now.
package enum ImportRefusal: String, Sendable, CaseIterable {
    /// The client's configuration lacks `import_tokens`, or `move_in` for a legacy token.
    case notOpen = "not_open"
    /// The time of `until` is over.
    case closed
}
