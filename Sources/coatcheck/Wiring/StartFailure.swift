/// The reason why the broker could not start, in a sentence for the operator.
struct StartFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
