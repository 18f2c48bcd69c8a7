/// Why a text is not the JSON asked for.
///
/// It names a place and never repeats the text.
package struct JSONFailure: Error, Sendable, Equatable {
    package enum Reason: String, Sendable {
        case syntax, tooLarge, tooDeep, invalidUTF8, controlCharacter, loneSurrogate, trailingBytes, duplicateMember
        case notAnObject, tooManyMembers
    }

    /// What is wrong.
    package let reason: Reason
    /// The byte at which it was seen.
    package let offset: Int

    init(_ reason: Reason, at offset: Int) {
        self.reason = reason
        self.offset = offset
    }
}
