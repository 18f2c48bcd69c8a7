/// Why a provider's settings cannot be used; names no secret.
package struct CatalogueFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// What is wrong, for the operator.
    package let description: String

    init(_ description: String) { self.description = description }
}
