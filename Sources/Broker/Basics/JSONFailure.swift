/// The reason why a text is not the required JSON.
///
/// The reason contains a position in the text, but no part of the text itself.
package struct JSONFailure: Error, Sendable, Equatable {
    package enum Reason: String, Sendable {
        case syntax, tooLarge, tooDeep, invalidUTF8, controlCharacter, loneSurrogate, trailingBytes, duplicateMember
        case notAnObject, tooManyMembers
    }

    /// The kind of fault.
    package let reason: Reason
    /// The position of the fault in bytes; for `tooLarge`, the limit.
    package let offset: Int
    /// The pointer of the duplicate member; nil for any other reason.
    package let member: String?

    init(_ reason: Reason, at offset: Int, member: String? = nil) {
        self.reason = reason
        self.offset = offset
        self.member = member
    }

    /// The fault in words, for logs.
    ///
    /// The words contain at most a limit, the member's pointer or the position.
    package var words: String {
        switch reason {
        case .syntax: "not JSON at byte \(offset)"
        case .tooLarge: "over \(offset) bytes"
        case .tooDeep: "nested too deep at byte \(offset)"
        case .invalidUTF8: "not UTF-8 before byte \(offset)"
        case .controlCharacter: "a control character at byte \(offset)"
        case .loneSurrogate: "half a surrogate pair before byte \(offset)"
        case .trailingBytes: "more text after the JSON at byte \(offset)"
        case .duplicateMember: "the member \(Self.shown(member ?? "")) stands twice"
        case .notAnObject: "JSON, but not an object"
        case .tooManyMembers: "an object with too many members at byte \(offset)"
        }
    }

    /// Returns the visible ASCII of a pointer, at most 64 characters.
    private static func shown(_ pointer: String) -> String {
        String(decoding: pointer.utf8.prefix(64).filter { (0x21...0x7E).contains($0) }, as: UTF8.self)
    }
}
