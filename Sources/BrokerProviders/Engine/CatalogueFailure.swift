/// The reason for which a provider's settings cannot be used; names no secret.
package struct CatalogueFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The fault, for the operator.
    package let description: String

    init(_ description: String) { self.description = description }
}
