/// What may be called at an upstream.
///
/// Nothing that it does not name gets through.
package struct AllowList: Sendable, Equatable {
    /// Methods that are never relayed, whatever a list says (SEC-80).
    static let refusedMethods: Set<String> = ["CONNECT", "TRACE"]

    let entries: [AllowEntry]

    /// Creates a list from its entries.
    package init(_ entries: [AllowEntry]) { self.entries = entries }

    /// Says whether some entry names both the method and the path.
    package func allows(method: String, path: CanonicalPath) -> Bool {
        entries.contains { $0.allows(method: method) && $0.allows(path: path) }
    }
}
