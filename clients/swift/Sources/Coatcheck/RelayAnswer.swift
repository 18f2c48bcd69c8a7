import Foundation

/// An upstream's answer, with its own status.
public struct RelayAnswer: Sendable {
    /// The upstream's own status.
    public let status: Int
    /// The header fields, names in small letters.
    public let fields: [String: String]
    /// The body, whole.
    public let body: Data
}
