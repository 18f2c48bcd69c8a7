import Foundation

/// An upstream's response, with its own status.
public struct RelayAnswer: Sendable {
    /// The upstream's own status.
    public let status: Int
    /// The header fields, with names in lower case.
    public let fields: [String: String]
    /// The complete body.
    public let body: Data
}
