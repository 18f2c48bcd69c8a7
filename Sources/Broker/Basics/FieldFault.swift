/// One faulty member of a request.
package struct FieldFault: Sendable, Equatable {
    package enum Code: String, Sendable {
        case required, unknown, duplicate, wrongType = "wrong_type", tooLong = "too_long", tooShort = "too_short"
        case malformed, notAllowed = "not_allowed", conflict
    }

    /// The JSON pointer of the member (`/callback_url`), or the name of a query parameter or header.
    package let pointer: String
    package let code: Code

    package init(_ pointer: String, _ code: Code) {
        self.pointer = pointer
        self.code = code
    }
}
