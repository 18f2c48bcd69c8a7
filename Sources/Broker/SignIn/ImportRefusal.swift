/// The reason why a client refuses imports now.
package enum ImportRefusal: String, Sendable, CaseIterable {
    /// The client's configuration lacks `import_tokens`.
    case notOpen = "not_open"
    /// The time of `import_tokens: {until}` is over.
    case closed
}
