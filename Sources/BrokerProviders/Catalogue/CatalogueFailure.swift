/// The reason why a provider's settings are unusable; it contains no secret.
package struct CatalogueFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The fault, in words for the operator.
    package let description: String

    init(_ description: String) { self.description = description }
}
