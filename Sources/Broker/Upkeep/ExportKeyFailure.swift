/// The reason why a key of an export or import is refused, as a sentence for the operator.
package struct ExportKeyFailure: Error, Sendable, Equatable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
