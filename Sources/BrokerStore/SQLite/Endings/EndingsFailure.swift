/// Why an endings file takes no lines at the moment, in words for the operator.
struct EndingsFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
