/// The reason why a statement, or the values for it, are wrong.
///
/// Each case has the name of the parameter.
enum StatementFault: Error, Sendable, Equatable {
    /// The text has a parameter that is missing in the declaration.
    case undeclared(String)
    /// The text lacks a parameter that the statement declares.
    case unused(String)
    /// The statement declares a parameter twice, or a parameter has two values.
    case repeated(String)
    /// A parameter lacks a value.
    case missing(String)
    /// A value has a name that the statement lacks.
    case surplus(String)
    /// A value has another type than its parameter.
    case wrongType(String)
}
